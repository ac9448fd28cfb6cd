// Overview: is it well, what is hot, what was done.

import { apiPath } from "../lib/api.js";
import { lineChart } from "../lib/chart.js";
import { bar, emptyState, errorState, html, icon, keyText, link, nothing, onElement, panel, skeleton, timeAgo, whenLoaded } from "../lib/dom.js";
import { byteRate, bytes, count, plural, rate, rateTick, seconds, share, times, uncertainty, until, words } from "../lib/format.js";
import { changeText, classBadge, decisionLine, effectText, lastTime, nameShares, oncePerChange, outcomeBadge, statusFinding } from "../lib/decisions.js";
import { jobProgress } from "../lib/progress.js";
import { sameData } from "../lib/same.js";
import { dataTable } from "../lib/table.js";

const paths = {
  status: apiPath("/status"),
  plan: apiPath("/plan"),
  hotkeys: apiPath("/hotkeys", { n: 5 }),
  groups: apiPath("/groups"),
  decisions: apiPath("/decisions", { limit: 50 }),
  reads: apiPath("/heatmap", { metric: "reads", rows: 1 }),
  writes: apiPath("/heatmap", { metric: "writes", rows: 1 }),
};
// A key counts as hot on this page from this share of all operations on, if the balancer has no class for it.
const notableShare = 0.1;

/** @type {import("../app.js").View} */
export default {
  title: "Overview",
  watch: () => Object.values(paths),
  render(data, _params, ctx) {
    const get = (/** @type {keyof typeof paths} */ name) => data.get(paths[name]);
    return html`
      ${whenLoaded(get("status"), (status) => verdict(status, get("plan"), get("groups")), 3)}
      ${hotNow(get("plan"), get("hotkeys"), get("decisions"), get("status"), ctx)}
      <div class="columns wide-left">
        <div class="stack">
          ${panel("Operations a second", whenLoaded(get("reads"), (reads) => trafficChart(reads, get("writes"))), { aside: html`<a href="#/heatmap">Heat map</a>` })}
          ${panel("Groups", whenLoaded(get("groups"), (page) => groupsTable(page, get("plan"), ctx)), { flush: true, aside: "the mark is the mean" })}
        </div>
        <div class="stack">
          ${panel("What was done", whenLoaded(get("decisions"), (page) => decisionList(page, get("plan"), ctx)), { aside: html`<a href="#/events">All decisions</a>` })}
          ${panel("Jobs under way", whenLoaded(get("status"), (status) => jobList(status, ctx)), { aside: html`<a href="#/jobs">All jobs</a>` })}
          ${panel("Events", whenLoaded(get("status"), (status) => eventList(status, ctx)))}
        </div>
      </div>
      ${sameData({ curl: paths.status, cleave: "cleave status" })}`;
  },
};

/** @param {any} status @param {any} plan @param {any} groups */
function verdict(status, plan, groups) {
  const loads = groups?.items?.map((/** @type {any} */ g) => g.load) ?? [];
  const sum = (/** @type {(load: any) => number} */ value) => loads.reduce((/** @type {number} */ n, /** @type {any} */ load) => n + value(load), 0);
  const figure = (/** @type {string} */ name, /** @type {unknown} */ value, /** @type {unknown} */ detail = "", /** @type {string} */ help = "") =>
    html`<div title=${help || nothing}><dt>${name}</dt><dd>${value} <small>${detail}</small></dd></div>`;
  const p99 = Math.max(0, ...loads.map((/** @type {any} */ load) => load.service_p99_seconds));
  return html`
    ${status.findings.map(statusFinding)}
    <dl class="figures">
      ${figure("Operations", rate(sum((l) => l.reads_per_second + l.writes_per_second)), "of all shards", "Of the last seconds")}
      ${figure("Writes", rate(sum((l) => l.writes_per_second)), rate(sum((l) => l.reads_per_second)) + " reads", "Of the last seconds")}
      ${figure("Service p99", p99 ? "≤ " + seconds(p99) : "–", "of the slowest group", "What 99 of 100 operations of the slowest group did not exceed, since the start. At most twice too large.")}
      ${figure("Imbalance", plan?.imbalance ? times(plan.imbalance) : "–", "the mean", "The work of the busiest group beside the mean of all: 1 is even")}
      ${figure("Clients", count(status.clients), "of " + count(status.max_clients))}
      ${figure("Data", bytes(status.bytes), plural(status.rows, "row"), "Estimates")}
      ${figure("Shards", count(status.shards), plural(status.groups, "group"))}
      ${figure("Up for", seconds(wholeMinutes(status.uptime_seconds)), status.version === "(devel)" ? "" : status.version, `Durability ${status.durability}, storage ${status.storage}, ${status.failures_tolerated} failures tolerated`)}
    </dl>`;
}

/** @param {number} s */
const wholeMinutes = (s) => (s < 60 ? Math.floor(s) : Math.floor(s / 60) * 60);

/** Findings of the balancer, and keys that stand out without being one. */
function hotNow(/** @type {any} */ plan, /** @type {any} */ hotkeys, /** @type {any} */ decisions, /** @type {any} */ status, /** @type {any} */ ctx) {
  const title = "What is hot now";
  const aside = html`<a href="#/hotkeys">All hot keys</a>`;
  if (plan === undefined || hotkeys === undefined) return panel(title, skeleton(4), { aside });
  if (plan instanceof Error && hotkeys instanceof Error) return panel(title, errorState(/** @type {any} */ (plan)), { aside });
  const keys = hotkeys.keys ?? [];
  const found = (plan.found ?? []).filter((/** @type {any} */ f) => f.class !== "cold");
  const named = new Set(found.map((/** @type {any} */ f) => f.key));
  const others = keys.filter((/** @type {any} */ k) => !named.has(k.key) && k.share_of_all >= notableShare && k.per_second >= 1);
  const cards = [
    ...found.map((/** @type {any} */ f) => findingCard(f, f.heat ?? keys.find((/** @type {any} */ k) => k.shard === f.shard && (!f.key || k.key === f.key)), decisions, status, ctx)),
    ...others.map((/** @type {any} */ k) => keyCard(k, decisions, status, ctx)),
  ];
  if (cards.length) return panel(title, html`<div class="hot-list">${cards}</div>`, { aside });
  if (keys.some((/** @type {any} */ k) => k.per_second >= 1)) {
    return panel(title, emptyState("Nothing stands out", html`The key asked for most is ${keyText(keys[0].key, 60)} with ${share(keys[0].share_of_all)} of all operations.`), { aside });
  }
  return panel(title, emptyState("No keys are hot: nothing is asked of this server",
    html`Connect with <code>redis-cli</code>, or try <code>cleave demo flash-sale</code>.${status?.commands ? ` It has executed ${count(status.commands)} commands since it started.` : ""}`), { aside });
}

/** @param {any} f @param {any} key @param {any} decisions @param {any} status @param {any} ctx */
function findingCard(f, key, decisions, status, ctx) {
  const name = f.key ? keyText(f.key, 80) : f.shard ? html`<a class="strong" href=${link("shards/" + f.shard)}>shard ${f.shard}</a>` : html`<span class="strong">group ${f.group}</span>`;
  return html`<article class="hot-card">
    <div class="hot-head">${classBadge(f.class)}${name}${key ? keyRate(key) : nothing}</div>
    <dl class="hot-rows">
      <dt>Evidence</dt><dd>${f.evidence}</dd>
      ${key ? behind(key) : nothing}
      ${done(f.shard, decisions, status, ctx)}
      ${accepted(f.accepted, ctx)}
      ${f.remedy ? html`<dt>What helps</dt><dd>${f.remedy}</dd>` : nothing}
    </dl>
    ${actions(f.shard, key?.keyspace, f.key ?? undefined, ctx, f.class === "hot key" || f.class === "moving edge")}
  </article>`;
}

/** @param {any} k @param {any} decisions @param {any} status @param {any} ctx */
function keyCard(k, decisions, status, ctx) {
  return html`<article class="hot-card mild">
    <div class="hot-head">${classBadge("hot key")}${keyText(k.key, 80)}${keyRate(k)}</div>
    <dl class="hot-rows">
      ${behind(k)}
      ${done(k.shard, decisions, status, ctx)}
    </dl>
    ${actions(k.shard, k.keyspace, k.key, ctx, false)}
  </article>`;
}

/** @param {any} k */
function keyRate(k) {
  return html`<span class="number" title="The part of all operations. The rate is an estimate from a sample; 95 of 100 are within the bound.">${rate(k.per_second)}
    <span class="muted">± ${share(uncertainty(k))}</span> · ${share(k.share_of_all)} of all</span>`;
}

/** @param {any} k */
function behind(k) {
  return html`
    <dt>Asked by</dt><dd>${nameShares(k.clients)}</dd>
    <dt>With</dt><dd>${nameShares(k.commands)}</dd>
    <dt>Load</dt><dd>${rate(k.reads_per_second)} reads, ${rate(k.writes_per_second)} writes, ${byteRate(k.bytes_per_second)}${k.share_of_shard ? html`; ${share(k.share_of_shard)} of <a href=${link("shards/" + k.shard)}>shard ${k.shard}</a>` : nothing} in group ${k.group}</dd>`;
}

/** A throttle that holds, and the last decision of each kind about a shard, two at most. @param {number} shard @param {any} decisions @param {any} status @param {any} ctx */
function done(shard, decisions, status, ctx) {
  const throttle = status?.throttles?.find((/** @type {any} */ t) => t.shard === shard);
  const last = oncePerChange((decisions?.items ?? []).filter((/** @type {any} */ d) => d.shard === shard)).slice(0, 2);
  return html`<dt>What was done</dt><dd>
    ${throttle ? html`<div>Its writers are held to <b>${rate(throttle.writes_per_second)}</b> now; ${count(throttle.refused)} were refused</div>` : nothing}
    ${last.map((d) => html`<div class="toolbar"><span>${changeText(d)}, ${timeAgo(lastTime(d), ctx)}</span>${outcomeBadge(d.outcome, d.change)}${effectText(d)}<span class="muted">${d.reason}</span></div>`)}
    ${throttle || last.length ? nothing : html`<span class="muted">Nothing so far</span>`}</dd>`;
}

/** @param {any} a @param {any} ctx */
function accepted(a, ctx) {
  if (!a) return nothing;
  return html`<dt>Accepted</dt><dd>It is left as it is; that ends ${until(a.until, ctx.now())}: ${a.reason} <span class="muted">(${words(a.ground)}; price: ${a.price})</span></dd>`;
}

/** @param {number} shard @param {string|undefined} keyspace @param {string|undefined} key @param {any} ctx @param {boolean} canAccept */
function actions(shard, keyspace, key, ctx, canAccept) {
  if (!shard) return nothing;
  return html`<div class="toolbar">
    ${key === undefined ? html`<a class="button" href=${link("shards/" + shard)}>Explain shard ${shard}</a>` : html`<a class="button" href=${link("explain", { keyspace, key })}>Explain the key</a>`}
    <a class="button" href=${link("heatmap", { keyspace })}>Heat map</a>
    <button @click=${() => ctx.openAction("setCap", { shard })}>Cap writes…</button>
    ${canAccept ? html`<button @click=${() => ctx.openAction("accept", { shard })}>Accept…</button>` : nothing}
  </div>`;
}

/** @param {any} reads @param {any} writes */
function trafficChart(reads, writes) {
  if (reads.columns.length < 2) return emptyState("No traffic is recorded yet", "The first figures come ten seconds after the start.");
  const lines = {
    times: reads.columns.map((/** @type {string} */ t) => Date.parse(t) / 1000),
    series: [
      { label: "Reads", token: "--accent", values: reads.cells[0] ?? [] },
      { label: "Writes", token: "--hot", values: writes?.cells?.[0] ?? reads.columns.map(() => null) },
    ],
    format: rate,
    tick: rateTick,
  };
  return html`<div class="chart" role="img" aria-label="Reads and writes a second over time" ${onElement((el) => lineChart(el, lines))}></div>`;
}

/** @param {any} page @param {any} plan @param {any} ctx */
function groupsTable(page, plan, ctx) {
  const work = new Map((plan?.groups ?? []).map((/** @type {any} */ g) => [g.group, g.work]));
  const all = [...work.values()];
  const mean = all.reduce((n, w) => n + w, 0) / (all.length || 1);
  const top = Math.max(...all, 0.01);
  // The scale ends at the busiest group, so that differences show, and at a quarter of the time at least.
  const scale = Math.max(top * 1.1, 0.25);
  const workOf = (/** @type {any} */ g) => work.get(g.id) ?? g.load.busy;
  const isHot = (/** @type {any} */ g) => workOf(g) > 0.25 && workOf(g) > 1.3 * mean;
  return dataTable({
    id: "groups", noun: "group", ctx, rows: page.items, rowKey: (g) => g.id, filter: false,
    open: (g) => link("shards", { q: "group=" + g.id }),
    columns: [
      { id: "group", title: "Group", value: (g) => g.id, cell: (g) => html`<a href=${link("shards", { q: "group=" + g.id })}>group ${g.id}</a>${g.draining ? html` <span class="badge warn">draining</span>` : nothing}` },
      { id: "work", title: "Work", value: workOf, help: "The share of its time that the group is at work", cell: (g) => html`<span class="toolbar nowrap">${bar(workOf(g) / scale, { mark: mean / scale, tone: isHot(g) ? "wide hot" : "wide", label: `${share(workOf(g))} of its time, mean ${share(mean)}` })} <b>${share(workOf(g))}</b></span>` },
      { id: "ops", title: "Operations", align: "right", value: (g) => g.load.reads_per_second + g.load.writes_per_second, cell: (g) => rate(g.load.reads_per_second + g.load.writes_per_second) },
      { id: "queue", title: "Waiting", align: "right", help: "Commands that wait", value: (g) => g.queue_depth, cell: (g) => count(g.queue_depth) },
      { id: "p99", title: "Batch p99", align: "right", help: "How long 99 of 100 batches took at most", value: (g) => g.service_p99_seconds, cell: (g) => (g.service_p99_seconds ? seconds(g.service_p99_seconds) : "–") },
      { id: "shards", title: "Shards", align: "right", value: (g) => g.shards, cell: (g) => count(g.shards) },
      { id: "bytes", title: "Data", align: "right", value: (g) => g.bytes, cell: (g) => bytes(g.bytes) },
      { id: "do", title: "Changes", value: () => undefined, cell: (g) => html`<button class="quiet" aria-label="${g.draining ? "Undrain" : "Drain"} group ${g.id}" @click=${() => ctx.openAction(g.draining ? "undrainGroup" : "drainGroup", { group: g.id })}>${g.draining ? "Undrain…" : "Drain…"}</button>` },
    ],
  });
}

/** @param {any} page @param {any} plan @param {any} ctx */
function decisionList(page, plan, ctx) {
  const manual = plan?.manual ? html`<div class="notice">${icon("info")}<div>Relief is manual: nothing is done until you ask. <button @click=${() => ctx.openAction("rebalance")}>Rebalance…</button></div></div>` : nothing;
  if (page.items.length === 0) return html`${manual}${emptyState("No decisions yet", "What the server does about hot, large and cold shards is listed here, with what it predicted and measured.")}`;
  return html`${manual}<ul class="lines">${oncePerChange(page.items).slice(0, 6).map((d) => html`<li>${decisionLine(d, ctx)}</li>`)}</ul>`;
}

/** @param {any} status @param {any} ctx */
function jobList(status, ctx) {
  if (status.jobs.length === 0) return html`<p class="muted">No job is under way.</p>`;
  return html`<ul class="lines">${status.jobs.slice(0, 8).map((/** @type {any} */ j) => html`<li>${jobProgress(j, ctx)}</li>`)}</ul>`;
}

/** @param {any} status @param {any} ctx */
function eventList(status, ctx) {
  return html`<ul class="lines">${status.events.slice(0, 6).map((/** @type {any} */ e) => html`<li class="small"><span>${e.message}</span> <span class="muted nowrap">· ${timeAgo(e.time, ctx)}</span></li>`)}</ul>`;
}
