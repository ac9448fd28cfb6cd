// What views say about a shard.

import { html, keyText } from "./dom.js";
import { count } from "./format.js";

export const opsOf = (load) => load.reads_per_second + load.writes_per_second;

/** Its keys, as text to filter and to sort by. @param {any} s */
export function rangeText(s) {
  if (s.first_slot !== undefined) return `slots ${s.first_slot}–${s.last_slot}`;
  if (!s.keyspace) return s.id === 1 ? "catalog" : "no keyspace";
  return `${s.start_key ?? "…"} – ${s.end_key ?? "…"}`;
}

/** @param {any} s @param {number} [chars] of each bound */
export function rangeCell(s, chars = 24) {
  if (s.first_slot !== undefined) return html`<span class="nowrap">slots ${count(s.first_slot)} – ${count(s.last_slot)}</span>`;
  if (!s.keyspace) return html`<span class="muted">${rangeText(s)}</span>`;
  const bound = (/** @type {string|undefined} */ key, /** @type {string} */ none) => (key === undefined ? html`<span class="muted">${none}</span>` : keyText(key, chars));
  return html`<span class="range">${bound(s.start_key, "first key")} – ${bound(s.end_key, "last key")}</span>`;
}
