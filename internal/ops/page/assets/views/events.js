// Events: decisions about shards, what happened in the server, who changed what.

import { apiPath } from "../lib/api.js";
import { changeText, classBadge, effectText, lastTime, outcomeBadge, stateBadge } from "../lib/decisions.js";
import { badge, emptyState, html, keyText, link, nothing, panel, timeAgo, whenLoaded } from "../lib/dom.js";
import { clip } from "../lib/format.js";
import { sameData } from "../lib/same.js";
import { dataTable } from "../lib/table.js";

const eventFilters = /** @type {const} */ (["from", "to", "kind", "keyspace", "shard"]);
/** Parameters of the address narrow the events. @param {Record<string, string>} params */
const eventsPath = (params) => apiPath("/events", { ...Object.fromEntries(eventFilters.map((name) => [name, params[name]])), limit: 1000 });
const paths = {
  decisions: apiPath("/decisions", { limit: 500 }),
  audit: apiPath("/audit", { limit: 1000 }),
};

/** @type {import("../app.js").View} */
export default {
  title: "Events",
  every: 2,
  watch: (params) => [...Object.values(paths), eventsPath(params)],
  render(data, params, ctx) {
    const narrowed = eventFilters.filter((name) => params[name]);
    return html`
      ${panel("Decisions about shards", whenLoaded(data.get(paths.decisions), (p) => decisions(p.items, ctx), 6), { flush: true, aside: "work: the share of its time that a group is at work" })}
      ${sameData({ curl: paths.decisions, cleave: "cleave decision list --limit 500" })}
      ${panel("What happened", whenLoaded(data.get(eventsPath(params)), (p) => events(p.items, ctx), 3), {
        flush: true,
        aside: narrowed.length ? html`${narrowed.map((name) => badge(`${name} ${params[name]}`))}<a href="#/events">Show all</a>` : nothing,
      })}
      ${sameData({ curl: eventsPath(params), cleave: "cleave status" })}
      ${panel("Who changed what", whenLoaded(data.get(paths.audit), (p) => audit(p.items, ctx), 3), { flush: true, aside: "the audit log" })}
      ${sameData({ curl: paths.audit, cleave: "cleave audit" })}`;
  },
};

const lastMs = (d) => Date.parse(lastTime(d));

/** @param {any[]} rows @param {any} ctx */
function decisions(rows, ctx) {
  return dataTable({
    noun: "decision", ctx, rows, rowKey: (d) => d.id, sort: "-time", open: (d) => (d.shard ? link("shards/" + d.shard) : "#/events"),
    empty: emptyState("No decisions yet", "What the server does about hot, large and cold shards is listed here, with what it predicted and measured."),
    columns: [
      { id: "time", title: "When", value: lastMs, cell: (d) => html`<span class="nowrap">${timeAgo(lastTime(d), ctx)}${d.times > 1 ? html` <span class="muted">${d.times}×</span>` : nothing}</span>` },
      { id: "change", title: "Decision", value: (d) => `${d.change} ${d.shard ?? ""}`, cell: (d) => html`<span class="strong nowrap">${changeText(d)}</span>${d.by_hand ? html` ${badge("by hand")}` : nothing}` },
      { id: "class", title: "Class", value: (d) => d.class, cell: (d) => (d.class ? classBadge(d.class) : html`<span class="muted">–</span>`) },
      { id: "reason", title: "Reason", value: (d) => d.reason, cell: (d) => html`<div class="long">${d.reason}${d.key ? html`: ${keyText(d.key, 40)}` : nothing}${d.evidence ? html`<div class="muted small">${d.evidence}</div>` : nothing}</div>` },
      { id: "effect", title: "Effect", value: (d) => d.work_measured ?? d.work_predicted, cell: (d) => html`<span class="small">${effectText(d)}</span>` },
      { id: "outcome", title: "Outcome", value: (d) => d.outcome, cell: (d) => html`${outcomeBadge(d.outcome, d.change)}${d.error ? html`<div class="small tone-warn">${d.error}</div>` : nothing}` },
      { id: "job", title: "Job", align: "right", value: (d) => d.job, cell: (d) => (d.job ? html`<a href=${link("jobs/" + d.job)}>${d.job}</a>` : "–") },
    ],
  });
}

/** @param {any[]} rows @param {any} ctx */
function events(rows, ctx) {
  return dataTable({
    id: "events", noun: "event", ctx, rows, rowKey: (e) => e.time + e.message, empty: emptyState("Nothing happened in this time"), sort: "-time",
    columns: [
      { id: "time", title: "When", value: (e) => Date.parse(e.time), cell: (e) => html`<span class="nowrap">${timeAgo(e.time, ctx)}</span>` },
      { id: "kind", title: "Kind", value: (e) => e.kind, cell: (e) => badge(e.kind) },
      { id: "message", title: "What", value: (e) => e.message, cell: (e) => html`<div class="long">${e.message}</div>` },
      { id: "shard", title: "Shard", align: "right", value: (e) => e.shard, cell: (e) => (e.shard ? html`<a href=${link("shards/" + e.shard)}>${e.shard}</a>` : "–") },
      { id: "outcome", title: "Outcome", value: (e) => e.outcome, cell: (e) => (e.outcome ? stateBadge(e.outcome) : html`<span class="muted">–</span>`) },
      { id: "command", title: "More", value: (e) => e.command, cell: (e) => (e.command ? html`<code class="small">${e.command}</code>` : html`<span class="muted">–</span>`) },
    ],
  });
}

const auditTones = { done: "ok", failed: "bad", denied: "bad", begun: "info" };

/** @param {any[]} rows @param {any} ctx */
function audit(rows, ctx) {
  return dataTable({
    id: "audit", noun: "entry", ctx, rows, rowKey: (a) => a.seq, sort: "-time",
    empty: emptyState("No change so far"),
    columns: [
      { id: "time", title: "When", value: (a) => a.seq, cell: (a) => html`<span class="nowrap">${timeAgo(a.time, ctx)}</span>` },
      { id: "who", title: "Who", value: (a) => `${a.who} ${a.claims ?? ""}`, cell: (a) => html`${a.who}${a.claims ? html` <span class="muted" title="By its own account">${clip(a.claims, 40)}</span>` : nothing}` },
      { id: "from", title: "From", value: (a) => a.from, cell: (a) => html`<span class="muted">${a.from}</span>` },
      { id: "action", title: "Action", value: (a) => a.action, cell: (a) => html`<code>${a.action}</code>` },
      { id: "what", title: "What", value: (a) => a.what, cell: (a) => html`<div class="long" title=${a.what}>${clip(a.what, 200)}${a.detail ? html`<div class="muted small">${clip(a.detail, 200)}</div>` : nothing}</div>` },
      { id: "outcome", title: "Outcome", value: (a) => a.outcome, cell: (a) => badge(a.outcome, auditTones[/** @type {keyof typeof auditTones} */ (a.outcome)] ?? "") },
      { id: "job", title: "Job", align: "right", value: (a) => a.job, cell: (a) => (a.job ? html`<a href=${link("jobs/" + a.job)}>${a.job}</a>` : "–") },
    ],
  });
}
