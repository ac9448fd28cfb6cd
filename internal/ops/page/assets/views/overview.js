// Overview: is it well, what is hot, what was done.

import { apiPath } from "../lib/api.js";
import { lineChart } from "../lib/chart.js";
import { bar, emptyState, errorState, figure, html, icon, keyText, link, nothing, onElement, panel, skeleton, timeAgo, whenLoaded } from "../lib/dom.js";
import { bytes, count, plural, rate, rateTick, seconds, share, shortVersion, times } from "../lib/format.js";
import { decisionLine, oncePerChange, statusFinding } from "../lib/decisions.js";
import { hotCards, hotPaths, seenIn } from "../lib/hot.js";
import { jobProgress } from "../lib/progress.js";
import { sameData } from "../lib/same.js";
import { dataTable } from "../lib/table.js";

const paths = {
  ...hotPaths,
  groups: apiPath("/groups"),
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
      ${whenLoaded(get("status"), (status) => verdict(status, get("plan"), get("groups"), ctx), 3)}
      ${hotNow(seenIn(data, ctx))}
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

function verdict(status, plan, groups, ctx) {
  const loads = groups?.items?.map((g) => g.load) ?? [];
  const sum = (/** @type {(load: any) => number} */ value) => loads.reduce((n, load) => n + value(load), 0);
  const p99 = Math.max(0, ...loads.map((load) => load.service_p99_seconds));
  return html`
    ${status.findings.map((f) => statusFinding(f, ctx))}
    <dl class="figures">
      ${figure("Operations", rate(sum((l) => l.reads_per_second + l.writes_per_second)), "of all shards", "Of the last seconds")}
      ${figure("Writes", rate(sum((l) => l.writes_per_second)), rate(sum((l) => l.reads_per_second)) + " reads", "Of the last seconds")}
      ${figure("Service p99", p99 ? "≤ " + seconds(p99) : "–", "of the slowest group", "What 99 of 100 operations of the slowest group did not exceed, since the start. At most twice too large.")}
      ${figure("Imbalance", plan?.imbalance ? times(plan.imbalance) : "–", "the mean", "The work of the busiest group beside the mean of all: 1 is even")}
      ${figure("Clients", count(status.clients), "of " + count(status.max_clients))}
      ${figure("Data", bytes(status.bytes), plural(status.rows, "row"), "Estimates")}
      ${figure("Shards", count(status.shards), plural(status.groups, "group"))}
      ${figure("Up for", seconds(wholeMinutes(status.uptime_seconds)), shortVersion(status.version), `Durability ${status.durability}, storage ${status.storage}, ${status.failures_tolerated} failures tolerated`)}
    </dl>`;
}

/** @param {number} s */
const wholeMinutes = (s) => (s < 60 ? Math.floor(s) : Math.floor(s / 60) * 60);

/** @param {import("../lib/hot.js").Seen} seen */
function hotNow(seen) {
  const { plan, hotkeys, heat, status } = seen;
  const title = "What is hot now";
  const aside = html`<a href="#/hotkeys">All hot keys</a>`;
  if ([plan, hotkeys, heat].includes(undefined)) return panel(title, skeleton(4), { aside });
  if (plan instanceof Error && hotkeys instanceof Error) return panel(title, errorState(/** @type {any} */ (plan)), { aside });
  const cards = hotCards(seen, notableShare);
  if (cards.length) return panel(title, html`<div class="hot-list">${cards}</div>`, { aside });
  const [top] = hotkeys.keys ?? [];
  if (top?.per_second >= 1) {
    return panel(title, emptyState("Nothing stands out", html`The key asked for most is ${keyText(top.key, 60)} with ${share(top.share_of_all)} of all operations.`), { aside });
  }
  return panel(title, emptyState("No keys are hot: nothing is asked of this server",
    html`Connect with <code>redis-cli</code>, or try <code>cleave demo flash-sale</code>.${status?.commands ? ` It has executed ${count(status.commands)} commands since it started.` : ""}`), { aside });
}

function trafficChart(reads, writes) {
  if (reads.columns.length < 2) return emptyState("No traffic is recorded yet", "The first figures come ten seconds after the start.");
  const lines = {
    times: reads.columns.map((t) => Date.parse(t) / 1000),
    series: [
      { label: "Reads", token: "--accent", values: reads.cells[0] ?? [] },
      { label: "Writes", token: "--hot", values: writes?.cells?.[0] ?? reads.columns.map(() => null) },
    ],
    format: rate,
    tick: rateTick,
  };
  return html`<div class="chart" role="img" aria-label="Reads and writes a second over time" ${onElement((el) => lineChart(el, lines))}></div>`;
}

function groupsTable(page, plan, ctx) {
  const work = new Map((plan?.groups ?? []).map((g) => [g.group, g.work]));
  const all = [...work.values()];
  const mean = all.reduce((n, w) => n + w, 0) / (all.length || 1);
  const top = Math.max(...all, 0.01);
  // The scale ends at the busiest group, so that differences show, and at a quarter of the time at least.
  const scale = Math.max(top * 1.1, 0.25);
  const workOf = (g) => work.get(g.id) ?? g.load.busy;
  const isHot = (g) => workOf(g) > 0.25 && workOf(g) > 1.3 * mean;
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

function decisionList(page, plan, ctx) {
  const manual = plan?.manual ? html`<div class="notice">${icon("info")}<div>Relief is manual: nothing is done until you ask. <button @click=${() => ctx.openAction("rebalance")}>Rebalance…</button></div></div>` : nothing;
  if (page.items.length === 0) return html`${manual}${emptyState("No decisions yet", "What the server does about hot, large and cold shards is listed here, with what it predicted and measured.")}`;
  return html`${manual}<ul class="lines">${oncePerChange(page.items).slice(0, 6).map((d) => html`<li>${decisionLine(d, ctx)}</li>`)}</ul>`;
}

function jobList(status, ctx) {
  if (status.jobs.length === 0) return html`<p class="muted">No job is under way.</p>`;
  return html`<ul class="lines">${status.jobs.slice(0, 8).map((j) => html`<li>${jobProgress(j, ctx)}</li>`)}</ul>`;
}

function eventList(status, ctx) {
  return html`<ul class="lines">${status.events.slice(0, 6).map((e) => html`<li class="small"><span>${e.message}</span> <span class="muted nowrap">· ${timeAgo(e.time, ctx)}</span></li>`)}</ul>`;
}
