// One shard, explained: what it has, what is asked of it, why it is where it is, what was done about it.

import { apiPath } from "../lib/api.js";
import { decisionLine, oncePerChange } from "../lib/decisions.js";
import { emptyState, errorState, figure, html, icon, link, nothing, panel, whenLoaded } from "../lib/dom.js";
import { byteRate, bytes, count, plural, rate, seconds, share, until } from "../lib/format.js";
import { findingNotice } from "../lib/hot.js";
import { hotKeysTable } from "../lib/hotkeys.js";
import { sameData } from "../lib/same.js";
import { rangeCell } from "../lib/shards.js";

const planPath = apiPath("/plan");
const capsPath = apiPath("/caps");
const acceptedPath = apiPath("/accepted");
const explainPath = (id) => apiPath("/explain", { shard: id });
const keysPath = (id) => apiPath("/hotkeys", { shard: id, n: 10 });
const decisionsPath = (id) => apiPath("/decisions", { shard: id, limit: 50 });

/** @type {import("../app.js").View} */
export default {
  title: (params) => "Shard " + params.id,
  watch: ({ id }) => [explainPath(id), keysPath(id), decisionsPath(id), planPath, capsPath, acceptedPath],
  render(data, { id }, ctx) {
    const explained = data.get(explainPath(id));
    if (explained instanceof Error) return html`${errorState(/** @type {any} */ (explained))}<p><a href="#/shards">All shards</a></p>`;
    const caps = (data.get(capsPath)?.items ?? []).filter((c) => String(c.shard) === id);
    const found = (data.get(planPath)?.found ?? []).filter((f) => String(f.shard) === id);
    return html`
      <nav class="small" aria-label="Path"><a href="#/shards">Shards</a> › ${id}</nav>
      ${whenLoaded(explained, (e) => html`
        ${found.map(findingNotice)}${caps.map((c) => capNotice(c, ctx))}
        ${figures(e.shard)}
        <div class="columns">
          ${panel("Why it is so", html`<ul class="why">${e.why.map((line) => html`<li>${line}</li>`)}</ul>${facts(e.shard)}`)}
          ${panel("Change it", actions(e.shard, found, (data.get(acceptedPath)?.items ?? []).some((a) => String(a.shard) === id), ctx))}
        </div>`, 8)}
      ${panel("Keys asked for most", whenLoaded(data.get(keysPath(id)), (h) => hotKeysTable(h, ctx, { filter: false, empty: "No single key of this shard stands out" })), { flush: true, aside: html`<a href=${link("heatmap")}>Heat map</a>` })}
      ${panel("What was decided", whenLoaded(data.get(decisionsPath(id)), (page) => (page.items.length
        ? html`<ul class="lines">${oncePerChange(page.items).map((d) => html`<li>${decisionLine(d, ctx)}</li>`)}</ul>`
        : emptyState("No decision about this shard", "Nothing about it had to be changed so far."))))}
      ${sameData({ curl: explainPath(id), cleave: `cleave explain shard ${id}` })}`;
  },
};

function capNotice(c, ctx) {
  return html`<div class="notice warn">${icon("warn")}<div class="toolbar">
    <span>Writes are capped at ${rate(c.writes_per_second)}, ${c.until ? html`it ends ${until(c.until, ctx.now())}` : "until it is removed"}; ${count(c.refused)} writers were refused.</span>
    <button @click=${() => ctx.openAction("removeCap", { cap: c.id })}>Remove the cap…</button></div></div>`;
}

function figures(s) {
  const load = s.load;
  return html`<dl class="figures">
    ${figure("Reads", rate(load.reads_per_second), plural(load.reads, "read"))}
    ${figure("Writes", rate(load.writes_per_second), plural(load.writes, "write"))}
    ${figure("In", byteRate(load.bytes_in_per_second), bytes(load.bytes_in))}
    ${figure("Out", byteRate(load.bytes_out_per_second), bytes(load.bytes_out))}
    ${figure("Busy", share(load.busy), "of a processor", "How much of the time of one processor is spent on it")}
    ${figure("Service p99", load.service_p99_seconds ? "≤ " + seconds(load.service_p99_seconds) : "–", load.wait_p99_seconds ? "wait ≤ " + seconds(load.wait_p99_seconds) : "", "At most twice too large")}
    ${figure("Errors", rate(load.errors_per_second), plural(load.errors, "error"))}
    ${figure("Data", bytes(s.bytes), plural(s.rows, "row") + ", " + share(s.share) + " of all")}
  </dl>`;
}

function facts(s) {
  return html`<dl class="facts">
    <dt>Keyspace</dt><dd>${s.keyspace || "–"}${s.kind ? `, ${s.kind}` : ""}</dd>
    <dt>Keys</dt><dd>${rangeCell(s, 80)}</dd>
    <dt>Group</dt><dd>group ${s.group} on store ${s.store}</dd>
    <dt>Changed</dt><dd>in version ${count(s.changed)} of the map</dd>
    ${s.job ? html`<dt>Job</dt><dd><a href=${link("jobs/" + s.job)}>job ${s.job}</a> is at work on it</dd>` : nothing}
  </dl>`;
}

/** @param {any} s @param {any[]} found @param {boolean} isAccepted @param {any} ctx */
function actions(s, found, isAccepted, ctx) {
  const open = (name, preset) => () => ctx.openAction(name, preset);
  const canAccept = found.some((f) => f.class !== "cold" && f.class !== "oversized");
  const acts = [
    { name: "Split…", help: "Cut it in the middle", run: open("splitShard", { shard: s.id }) },
    { name: "Split at a key…", help: "Cut it where a key begins", run: open("splitAtKey", { keyspace: s.keyspace }) },
    { name: "Move…", help: "Give it to another group", run: open("moveShard", { shard: s.id }) },
    { name: "Merge…", help: "Join it with the next one", run: open("mergeShards", { left: s.id }) },
    { name: "Cap writes…", help: "Admit so many writes a second, in an emergency", run: open("setCap", { shard: s.id }) },
    { name: "Accept…", help: canAccept ? "Leave it hot, with a reason" : "Leave it hot, with a reason. It is not hot now", run: open("accept", { shard: s.id }) },
    ...(isAccepted ? [{ name: "End acceptance…", help: "Relieve it again", run: open("endAccept", { shard: s.id }) }] : []),
  ];
  return html`<dl class="acts">${acts.map((a) => html`<dt><button @click=${a.run}>${a.name}</button></dt><dd class="muted">${a.help}</dd>`)}</dl>
    <p class="small muted">Each shows a plan first. Nothing is changed before you confirm it.</p>`;
}
