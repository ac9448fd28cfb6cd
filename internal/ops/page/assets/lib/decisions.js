// How findings, decisions and jobs are worded, the same in all views.

import { badge, commandLine, html, icon, keyText, link, nothing, timeAgo } from "./dom.js";
import { clock, sentence, share, words } from "./format.js";
import { withAddress } from "./same.js";

const outcomeTones = {
  "helped": "ok", "done": "ok", "kept": "", "proposed": "info", "running": "info",
  "did not help": "warn", "refused": "warn",
};
const stateTones = { running: "info", paused: "warn", undoing: "warn", done: "ok", undone: "", failed: "bad" };

/** What came of a decision: to leave a shard as it is has no outcome, and a throttle that is "kept" was applied. @param {string} outcome @param {string} change */
export function outcomeBadge(outcome, change) {
  if (change === "keep" && outcome === "kept") return nothing;
  if (change === "throttle" && outcome === "kept") return badge("applied", "info");
  return badge(outcome, outcomeTones[/** @type {keyof typeof outcomeTones} */ (outcome)] ?? "");
}

/** @param {string} text */
export const stateBadge = (text) => badge(text, stateTones[/** @type {keyof typeof stateTones} */ (text)] ?? "");

/** @param {string} text hot key, moving edge, … */
export const classBadge = (text) => badge(words(text), text === "cold" ? "" : text === "oversized" || text === "saturated" ? "warn" : "hot");

/** What was done, in a few words. @param {any} d */
export function changeText(d) {
  const shard = d.shard ? html`<a href=${link("shards/" + d.shard)}>shard ${d.shard}</a>` : d.group ? `group ${d.group}` : "nothing";
  switch (d.change) {
    case "split":
      return html`Split ${shard}${d.cuts?.length ? ` in ${d.cuts.length + 1}` : ""}`;
    case "move":
      return html`Move ${shard} to group ${d.to}`;
    case "merge":
      return html`Merge ${shard} with <a href=${link("shards/" + d.with)}>shard ${d.with}</a>`;
    case "throttle":
      return html`Throttle writers of ${shard}`;
    default:
      return d.shard || d.group ? html`Leave ${shard} as it is` : "Change nothing";
  }
}

/** Work of the group before, as predicted, and as measured. @param {any} d */
export function effectText(d) {
  const isSame = d.work_measured === undefined && d.work_predicted === d.work_before;
  if (!d.work_before || d.change === "keep" || isSame) return nothing;
  return html`<span class="effect" title="The share of its time that the group is at work">work ${share(d.work_before)}
    → ${share(d.work_predicted)} predicted${d.work_measured === undefined ? nothing : html` → <b>${share(d.work_measured)}</b> measured`}</span>`;
}

/** When a decision was made last. @param {any} d */
export const lastTime = (d) => (d.times > 1 ? d.last : d.time);

/** The newest of decisions that do the same to the same shard, with how often there were such. @param {any[]} decisions the newest first */
export function oncePerChange(decisions) {
  const byChange = new Map();
  for (const d of decisions) {
    const key = [d.change, d.shard, d.group, d.to, d.reason].join(" ");
    const known = byChange.get(key);
    const many = Math.max(1, d.times);
    if (known) Object.assign(known, { times: known.times + many, time: d.time });
    else byChange.set(key, { ...d, last: lastTime(d), times: many });
  }
  return [...byChange.values()];
}

export function decisionLine(d, ctx) {
  return html`<div class="toolbar"><span class="strong">${changeText(d)}</span>${outcomeBadge(d.outcome, d.change)}
      <span class="muted small">${timeAgo(lastTime(d), ctx)}</span>
      ${d.times > 1 ? html`<span class="muted small">· ${d.times} times since ${clock(d.time)}</span>` : nothing}</div>
    <div class="muted small">${d.reason}${d.key ? html`: ${keyText(d.key, 60)}` : nothing}</div>
    ${effectText(d) === nothing ? nothing : html`<div class="small">${effectText(d)}</div>`}
    ${d.error ? html`<div class="small tone-warn">${d.error}</div>` : nothing}
    ${d.job ? html`<a class="small" href=${link("jobs/" + d.job)}>job ${d.job}</a>` : nothing}`;
}

/** What a command or a program has of the requests. @param {{name: string, share: number}[]} names */
export function nameShares(names) {
  if (!names?.length) return html`<span class="muted">not known</span>`;
  return html`<span class="shares">${names.map((n) => html`<span><code title=${n.name}>${n.name}</code> <span class="muted">${share(n.share)}</span></span>`)}</span>`;
}

/** What to do: a command can be copied, and a cap removed. @param {string|undefined} fix @param {any} ctx */
function fixText(fix, ctx) {
  if (!fix) return nothing;
  const cap = /^cleave cap remove (\d+)$/.exec(fix)?.[1];
  return html`<div class="toolbar">${fix.startsWith("cleave ") ? commandLine(withAddress(fix)) : sentence(fix)}
    ${cap ? html`<button @click=${() => ctx.openAction("removeCap", { cap })}>Remove…</button>` : nothing}</div>`;
}

const findingTones = { unhealthy: "bad", degraded: "warn" };

/** @param {any} finding of the status @param {any} ctx */
export function statusFinding(finding, ctx) {
  const tone = findingTones[/** @type {keyof typeof findingTones} */ (finding.severity)] ?? "info";
  return html`<div class="notice ${tone}">${icon(tone)}<div><p class="strong">${sentence(finding.message)}</p>${fixText(finding.fix, ctx)}</div></div>`;
}
