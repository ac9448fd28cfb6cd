// What is hot: a card for each finding of the balancer, each key that stands out, and each pattern of the heat map beside.

import { apiPath } from "./api.js";
import { changeText, classBadge, effectText, lastTime, nameShares, oncePerChange, outcomeBadge } from "./decisions.js";
import { html, keyText, link, nothing, shardLink, timeAgo } from "./dom.js";
import { byteRate, count, rate, sentence, share, uncertainty, until, words } from "./format.js";
import { valueText } from "./heat-data.js";
import { patternMeasure, patternName, remedyLines } from "./heat-patterns.js";

/** @typedef {{[name in keyof typeof hotPaths]: any} & {ctx: any}} Seen what was answered */

export const hotPaths = {
  status: apiPath("/status"),
  plan: apiPath("/plan"),
  hotkeys: apiPath("/hotkeys", { n: 5 }),
  decisions: apiPath("/decisions", { limit: 50 }),
  caps: apiPath("/caps"),
  heat: apiPath("/heatmap", { rows: 128, columns: 60, from: "-10m", cells: "levels" }),
};
// Patterns that ended earlier are not hot now.
const recentSeconds = 120;
const idleWork = 0.25;
const mostly = 0.8;

const ofReads = "Let clients cache it (CLIENT TRACKING), or keep copies of it in several keys.";
const ofWrites = "Spread it over several keys and add them up when it is read (package counter, or a salt): no split makes one key smaller.";

/** @param {Map<string, any>} data @param {any} ctx @returns {Seen} */
export const seenIn = (data, ctx) => /** @type {any} */ ({ ctx, ...Object.fromEntries(Object.entries(hotPaths).map(([name, path]) => [name, data.get(path)])) });

/** @param {Seen} seen @param {number} notable a key counts as hot from this share of all operations on @returns {unknown[]} */
export function hotCards(seen, notable) {
  const keys = (seen.hotkeys?.keys ?? []).filter((k) => k.per_second >= 1 && uncertainty(k) < 1);
  const found = (seen.plan?.found ?? []).filter((f) => f.class !== "cold");
  const patterns = patternsNow(seen.heat);
  const patternOf = (k) => patterns.find((p) => isSameKey(p, k));
  const others = keys.filter((k) => !found.some((f) => f.key === k.key) && (k.share_of_all >= notable || patternOf(k)));
  const rest = patterns.filter((p) => !found.some((f) => covers(f, p)) && !others.some((k) => isSameKey(p, k)));
  return [
    ...found.map((f) => findingCard(f, f.heat ?? keys.find((k) => k.shard === f.shard && (!f.key || k.key === f.key)), seen)),
    ...rest.map((p) => patternCard(p, seen)),
    ...others.map((k) => keyCard(k, patternOf(k), seen)),
  ];
}

const isSameKey = (p, k) => p.key !== undefined && p.key === k.key && p.keyspace === k.keyspace;

/** Whether a finding is about the same as a pattern. @param {any} f @param {any} p */
function covers(f, p) {
  if (p.kind === "diagonal") return f.class === "moving edge" && f.keyspace === p.keyspace;
  return p.key === undefined ? p.kind === "horizontal" && f.shard === p.shard : f.key === p.key;
}

/** The patterns that have not ended, the strongest one of each place. @param {any} heat @returns {any[]} */
function patternsNow(heat) {
  const from = (heat?.columns?.length ?? 0) - recentSeconds / heat?.step_seconds;
  const places = new Map();
  for (const p of heat?.patterns ?? []) {
    const place = [p.kind, p.keyspace, p.key ?? (p.kind === "horizontal" && p.shard)].join(" ");
    if (p.last_column >= from && !(places.get(place)?.strength >= p.strength)) places.set(place, p);
  }
  return [...places.values()];
}

/** @param {any} f @param {any} key @param {Seen} seen */
function findingCard(f, key, seen) {
  const name = f.key ? keyText(f.key, 80) : f.shard ? html`<span class="strong">${shardLink(f.shard)}</span>` : html`<span class="strong">group ${f.group}</span>`;
  return html`<article class="hot-card">
    <div class="hot-head">${classBadge(f.class)}${name}${key ? keyRate(key) : nothing}</div>
    <dl class="hot-rows">
      <dt>Evidence</dt><dd>${f.evidence}</dd>
      ${key ? behind(key) : nothing}
      ${done(f, seen)}
      ${accepted(f.accepted, seen.ctx)}
      ${helps(f.remedy)}
    </dl>
    ${actions({ ...key, ...f }, seen.ctx, !f.accepted && (f.class === "hot key" || f.class === "moving edge"))}
  </article>`;
}

/** @param {any} k @param {any} pattern @param {Seen} seen */
function keyCard(k, pattern, seen) {
  return html`<article class="hot-card mild">
    <div class="hot-head">${classBadge("hot key")}${keyText(k.key, 80)}${keyRate(k)}</div>
    <dl class="hot-rows">${behind(k)}${done(k, seen)}${helps(keyRemedy(k, pattern))}</dl>
    ${actions(k, seen.ctx)}
  </article>`;
}

/** The map cannot tell reads from writes in all operations; the key's own rates can. @param {any} k @param {any} pattern */
function keyRemedy(k, pattern) {
  const reads = k.reads_per_second / (k.reads_per_second + k.writes_per_second);
  return reads >= mostly ? ofReads : reads <= 1 - mostly ? ofWrites : pattern?.remedy ?? `Read: ${ofReads} Written: ${ofWrites}`;
}

/** @param {any} p @param {Seen} seen */
function patternCard(p, seen) {
  const at = { ...p, group: seen.heat.rows[p.last_row]?.group };
  return html`<article class="hot-card mild" data-pattern=${p.kind}>
    <div class="hot-head">${classBadge(patternName(p).toLowerCase())}${p.key === undefined ? html`<span class="strong">${p.keyspace ? "keyspace " + p.keyspace : "most keys"}</span>` : keyText(p.key, 80)}
      <span class="number">${valueText(seen.heat.metric, p.rate)} · ${patternMeasure(p)}${p.kind === "vertical" ? "" : " of all"}</span></div>
    <dl class="hot-rows">
      <dt>Evidence</dt><dd>${sentence(p.text)}</dd>
      ${p.shard ? done(at, seen) : nothing}
      ${helps(p.remedy)}
    </dl>
    ${actions(at, seen.ctx)}
  </article>`;
}

/** @param {string} [remedy] */
const helps = (remedy) => (remedy ? html`<dt>What helps</dt><dd>${remedyLines(remedy)}</dd>` : nothing);

function keyRate(k) {
  return html`<span class="number" title="The part of all operations. The rate is an estimate from a sample; 95 of 100 are within the bound.">${rate(k.per_second)}
    <span class="muted">± ${share(uncertainty(k))}</span> · ${share(k.share_of_all)} of all</span>`;
}

function behind(k) {
  return html`
    <dt>Asked by</dt><dd>${nameShares(k.clients)}</dd>
    <dt>With</dt><dd>${nameShares(k.commands)}</dd>
    <dt>Load</dt><dd>${rate(k.reads_per_second)} reads, ${rate(k.writes_per_second)} writes, ${byteRate(k.bytes_per_second)}${k.share_of_shard ? html`; ${share(k.share_of_shard)} of ${shardLink(k.shard)}` : nothing} in group ${k.group}</dd>`;
}

/** Caps and a throttle that hold, and the last decision of each kind about a shard, two at most; else why there is none. @param {any} x @param {Seen} seen */
function done(x, { plan, decisions, status, caps, ctx }) {
  const throttle = status?.throttles?.find((t) => t.shard === x.shard);
  const last = oncePerChange((decisions?.items ?? []).filter((d) => d.shard === x.shard)).slice(0, 2);
  const capped = (caps?.items ?? []).filter((c) => (c.shard ? c.shard === x.shard : c.keyspace === x.keyspace && (x.key ?? "").startsWith(c.prefix ?? "")));
  return html`<dt>What was done</dt><dd>
    ${capped.map((c) => html`<div>Writes are capped at <b>${rate(c.writes_per_second)}</b>, by hand; ${count(c.refused)} were refused</div>`)}
    ${throttle ? html`<div>Its writers are held to <b>${rate(throttle.writes_per_second)}</b> now; ${count(throttle.refused)} were refused</div>` : nothing}
    ${last.map((d) => html`<div class="toolbar"><span>${changeText(d)}, ${timeAgo(lastTime(d), ctx)}</span>${outcomeBadge(d.outcome, d.change)}${effectText(d)}<span class="muted">${d.reason}</span></div>`)}
    ${throttle || last.length || capped.length ? nothing : html`<span class="muted">${whyNothing(plan?.groups?.find((g) => g.group === x.group)?.work)}</span>`}</dd>`;
}

/** @param {number} [work] of the group */
function whyNothing(work) {
  if (work === undefined) return "Nothing so far";
  return work < idleWork ? `Nothing: its group is at work ${share(work)} of its time, so nothing waits for it` : `Nothing so far: its group is at work ${share(work)} of its time`;
}

function accepted(a, ctx) {
  if (!a) return nothing;
  return html`<dt>Accepted</dt><dd>It is left as it is; that ends ${until(a.until, ctx.now())}: ${a.reason} <span class="muted">(${words(a.ground)}; price: ${a.price})</span></dd>`;
}

/** @param {any} x a finding, a key or a pattern @param {any} ctx @param {boolean} [canAccept] */
function actions({ shard, keyspace, key, writes_per_second: writes = 1 }, ctx, canAccept = false) {
  return html`<div class="toolbar">
    ${key !== undefined ? html`<a class="button" href=${link("explain", { keyspace, key })}>Explain the key</a>` : shard ? html`<a class="button" href=${link("shards/" + shard)}>Explain shard ${shard}</a>` : nothing}
    <a class="button" href=${link("heatmap", { keyspace })}>Heat map</a>
    ${shard && writes > 0 ? html`<button @click=${() => ctx.openAction("setCap", { shard })}>Cap writes…</button>` : nothing}
    ${canAccept ? html`<button @click=${() => ctx.openAction("accept", { shard })}>Accept…</button>` : nothing}
  </div>`;
}

/** A finding, in short. */
export function findingNotice(f) {
  return html`<article class="hot-card"><div class="hot-head">${classBadge(f.class)}${f.key ? keyText(f.key, 64) : nothing}${f.shard ? shardLink(f.shard) : nothing}</div>
    <p class="long">${f.evidence}</p>${f.remedy ? html`<div class="long"><span class="muted">What helps:</span> ${remedyLines(f.remedy)}</div>` : nothing}</article>`;
}
