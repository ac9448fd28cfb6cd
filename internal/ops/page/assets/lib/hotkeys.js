// The table of the keys that are asked for most.

import { nameShares } from "./decisions.js";
import { bar, emptyState, html, keyText, link, nothing } from "./dom.js";
import { bytes, count, plural, rate, seconds, share, uncertainty } from "./format.js";
import { dataTable } from "./table.js";

/** What is counted, a second. @param {any} hotkeys @param {number} n */
function measure(hotkeys, n) {
  switch (hotkeys.unit) {
    case "bytes":
      return bytes(n) + "/s";
    case "seconds":
      return seconds(n) + "/s";
    default:
      return rate(n);
  }
}

/** @param {any} hotkeys of the API @param {any} ctx @param {{filter?: boolean, classes?: Map<string, any>, empty?: string}} [options] classes: findings by key; empty: what is said without keys */
export function hotKeysTable(hotkeys, ctx, { filter = true, classes, empty } = {}) {
  const rows = rankedOf(hotkeys);
  const rare = hotkeys.keys.length - rows.length;
  return html`${dataTable({
    noun: "key", ctx, rows, rowKey: (k) => k.keyspace + " " + k.key, filter, sort: "-rate",
    open: (k) => link("explain", { keyspace: k.keyspace, key: k.key }),
    empty: empty || rare ? emptyState(empty ?? "No key stands out") : emptyState("No keys are hot: nothing is asked of this server", html`Try <code>cleave demo flash-sale</code>.`),
    columns: [
      { id: "key", title: "Key", value: (k) => k.key, cell: (k) => html`<a href=${link("explain", { keyspace: k.keyspace, key: k.key })}>${keyText(k.key, 64)}</a>${k.truncated ? html` <span class="badge" title="Only the begin of the key is known">cut</span>` : nothing}${classes?.has(k.key) ? html` <span class="badge hot">${classes.get(k.key).class}</span>` : nothing}` },
      { id: "keyspace", title: "Keyspace", value: (k) => k.keyspace, cell: (k) => k.keyspace },
      { id: "rate", title: hotkeys.unit[0].toUpperCase() + hotkeys.unit.slice(1), align: "right", help: "A second, and how far off it may be: the bound of the sketch and twice the deviation of the sample", value: (k) => k.per_second, cell: (k) => html`<b>${measure(hotkeys, k.per_second)}</b> <span class="muted">± ${share(uncertainty(k))}</span>` },
      { id: "share", title: "Of all", value: (k) => k.share_of_all, cell: (k) => html`<span class="toolbar nowrap">${bar(k.share_of_all, { tone: k.share_of_all >= 0.1 ? "hot" : "", label: share(k.share_of_all) + " of all" })} ${share(k.share_of_all)}</span>` },
      { id: "ofshard", title: "Of its shard", align: "right", value: (k) => k.share_of_shard, cell: (k) => (k.share_of_shard ? share(k.share_of_shard) : "–") },
      { id: "shard", title: "Shard", align: "right", value: (k) => k.shard, cell: (k) => html`<a href=${link("shards/" + k.shard)}>${k.shard}</a>` },
      { id: "reads", title: "Reads", align: "right", value: (k) => k.reads_per_second, cell: (k) => rate(k.reads_per_second) },
      { id: "writes", title: "Writes", align: "right", value: (k) => k.writes_per_second, cell: (k) => rate(k.writes_per_second) },
      { id: "p99", title: "p99", align: "right", help: "From the begin of execution to the reply", value: (k) => k.p99_seconds, cell: (k) => (k.p99_seconds ? seconds(k.p99_seconds) : "–") },
      { id: "client", title: "Client", help: "The name that connections of a program share, and its host", value: (k) => k.clients[0]?.name, cell: (k) => first(k.clients) },
      { id: "command", title: "Command", value: (k) => k.commands[0]?.name, cell: (k) => first(k.commands) },
    ],
  })}${rare ? html`<p class="inset small muted">${plural(rare, "key")} ${rare === 1 ? "was" : "were"} seen too seldom to rank</p>` : nothing}`;
}

/** @type {WeakMap<any, any[]>} */
const ranked = new WeakMap();

/** Keys whose rate is known, the same array for the same answer. @param {any} hotkeys @returns {any[]} */
function rankedOf(hotkeys) {
  const rows = ranked.get(hotkeys) ?? hotkeys.keys.filter((k) => uncertainty(k) < 1);
  ranked.set(hotkeys, rows);
  return rows;
}

/** The most frequent one; all of them in the title. @param {{name: string, share: number}[]} names */
function first(names) {
  if (!names.length) return html`<span class="muted">–</span>`;
  const more = names.length > 1 ? ` +${count(names.length - 1)}` : "";
  return html`<span class="nowrap" title=${names.map((n) => `${n.name} ${share(n.share)}`).join("\n")}>${nameShares(names.slice(0, 1))}<span class="muted">${more}</span></span>`;
}
