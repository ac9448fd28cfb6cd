// Data: keyspaces, indexes, sagas, caps and backups.

import { apiPath } from "../lib/api.js";
import { badge, emptyState, html, keyText, link, nothing, panel, timeAgo, whenLoaded } from "../lib/dom.js";
import { bytes, count, plural, rate, seconds, sentence, share, until } from "../lib/format.js";
import { sameData } from "../lib/same.js";
import { dataTable } from "../lib/table.js";

const paths = {
  keyspaces: apiPath("/keyspaces", { limit: 1000 }),
  indexes: apiPath("/indexes", { limit: 1000 }),
  sagas: apiPath("/sagas", { limit: 1000 }),
  caps: apiPath("/caps", { limit: 1000 }),
  backups: apiPath("/backups", { limit: 1000 }),
};

/** @type {import("../app.js").View} */
export default {
  title: "Data",
  every: 2,
  watch: () => Object.values(paths),
  render(data, _params, ctx) {
    const show = (/** @type {keyof typeof paths} */ name, /** @type {(page: any) => unknown} */ table) => whenLoaded(data.get(paths[name]), table, 3);
    const button = (text, action) => html`<button @click=${() => ctx.openAction(action)}>${text}</button>`;
    return html`
      ${panel("Keyspaces", show("keyspaces", (p) => keyspaces(p, ctx)), { flush: true, aside: button("Create a keyspace…", "createKeyspace") })}
      ${panel("Indexes", show("indexes", (p) => indexes(p, ctx)), { flush: true })}
      ${panel("Sagas", show("sagas", (p) => sagas(p, ctx)), { flush: true })}
      ${panel("Caps of writes", show("caps", (p) => caps(p, ctx)), { flush: true, aside: html`${button("Cap a shard…", "setCap")}${button("Cap a prefix…", "setPrefixCap")}` })}
      ${panel("Backups", show("backups", (p) => backups(p, ctx)), { flush: true, aside: button("Create a backup…", "createBackup") })}
      ${sameData({ curl: paths.keyspaces, cleave: "cleave keyspace list" })}`;
  },
};

function keyspaces(page, ctx) {
  return dataTable({
    id: "keyspaces", noun: "keyspace", ctx, rows: page.items, rowKey: (k) => k.name, sort: "-bytes", open: (k) => link("shards", { q: "keyspace=" + k.name }),
    columns: [
      { id: "name", title: "Name", value: (k) => k.name, cell: (k) => html`<a href=${link("shards", { q: "keyspace=" + k.name })}>${k.name}</a>${k.default ? html` ${badge("default")}` : nothing}${k.index ? html` ${badge("index")}` : nothing}${k.critical ? html` ${badge("critical", "warn")}` : nothing}` },
      { id: "kind", title: "Kind", value: (k) => k.kind, cell: (k) => html`${k.kind}${k.slots ? html` <span class="muted">${count(k.slots)} slots</span>` : nothing}` },
      { id: "layout", title: "Layout", value: (k) => k.layout, cell: (k) => (k.layout ? html`<code>${k.layout}</code>` : html`<span class="muted">–</span>`) },
      { id: "shards", title: "Shards", align: "right", value: (k) => k.shards, cell: (k) => count(k.shards) },
      { id: "indexes", title: "Indexes", align: "right", value: (k) => k.indexes, cell: (k) => count(k.indexes) },
      { id: "rows", title: "Rows", align: "right", value: (k) => k.rows, cell: (k) => count(k.rows) },
      { id: "bytes", title: "Data", align: "right", value: (k) => k.bytes, cell: (k) => bytes(k.bytes) },
      { id: "hits", title: "From memory", align: "right", help: "The share of looks at rows that memory could answer", value: (k) => k.cache_hit_ratio, cell: (k) => share(k.cache_hit_ratio) },
      { id: "do", title: "", value: () => undefined, cell: (k) => html`<button class="quiet" @click=${() => ctx.openAction("markCritical", { keyspace: k.name })}>Mark as critical…</button>` },
    ],
  });
}

function indexes(page, ctx) {
  const state = (i) => (i.error ? "stands still" : i.ready ? "ready" : "is built");
  return dataTable({
    id: "indexes", noun: "index", ctx, rows: page.items, rowKey: (i) => i.keyspace + " " + i.name,
    empty: emptyState("No indexes", html`An index finds rows by what they hold: <code>CLEAVE.INDEX CREATE</code> makes one.`),
    columns: [
      { id: "name", title: "Name", value: (i) => i.name, cell: (i) => html`<b>${i.name}</b>${i.unique ? html` ${badge("unique")}` : nothing}` },
      { id: "of", title: "Keyspace", value: (i) => i.keyspace, cell: (i) => i.keyspace },
      { id: "mode", title: "Mode", value: (i) => i.mode, cell: (i) => i.mode },
      { id: "columns", title: "Columns", value: (i) => i.columns ?? i.function, cell: (i) => html`<code>${i.columns ?? i.function}</code>` },
      { id: "state", title: "State", value: state, cell: (i) => html`${badge(state(i), i.error ? "bad" : i.ready ? "ok" : "info")} ${i.error ?? ""}` },
      { id: "behind", title: "Behind", align: "right", value: (i) => i.behind_seconds, cell: (i) => `${seconds(i.behind_seconds)}, ${bytes(i.behind_bytes)}` },
      { id: "refused", title: "Refused rows", align: "right", help: "Rows without an entry because of a mistake in them", value: (i) => i.refused, cell: (i) => count(i.refused) },
    ],
  });
}

function sagas(page, ctx) {
  return dataTable({
    id: "sagas", noun: "saga", ctx, rows: page.items, rowKey: (s) => s.id, sort: "-started",
    empty: emptyState("No sagas", page.note ? sentence(page.note) : "Work of several steps, which is undone if one fails, is listed here."),
    columns: [
      { id: "id", title: "Id", value: (s) => s.id, cell: (s) => keyText(s.id, 40) },
      { id: "definition", title: "Definition", value: (s) => s.definition, cell: (s) => s.definition },
      { id: "state", title: "State", value: (s) => s.stuck ?? s.state, cell: (s) => html`${badge(s.state, s.state === "completed" ? "ok" : s.state === "compensated" ? "" : "info")}${s.stuck ? html` ${badge(s.stuck, "bad")}` : nothing}` },
      { id: "step", title: "Step", value: (s) => s.at, cell: (s) => html`<span title=${s.steps.join(", ")}>${s.steps[s.at] ?? "–"} <span class="muted">${Math.min(s.at + 1, s.steps.length)} of ${s.steps.length}</span></span>` },
      { id: "attempts", title: "Failures in a row", align: "right", value: (s) => s.attempts, cell: (s) => count(s.attempts) },
      { id: "failure", title: "Last error", value: (s) => s.failure ?? s.cause, cell: (s) => s.failure ?? s.cause ?? html`<span class="muted">–</span>` },
      { id: "started", title: "Begun", align: "right", value: (s) => Date.parse(s.started), cell: (s) => timeAgo(s.started, ctx) },
    ],
  });
}

function caps(page, ctx) {
  return dataTable({
    id: "caps", noun: "cap", ctx, rows: page.items, rowKey: (c) => c.id,
    empty: emptyState("No caps", "In an emergency a cap limits the writes of a shard or of keys that begin alike."),
    columns: [
      { id: "of", title: "Of", value: (c) => (c.shard ? "shard " + c.shard : c.prefix), cell: (c) => (c.shard ? html`<a href=${link("shards/" + c.shard)}>shard ${c.shard}</a>` : html`${keyText(c.prefix ?? "", 40)} <span class="muted">in ${c.keyspace}</span>`) },
      { id: "writes", title: "Writes", align: "right", value: (c) => c.writes_per_second, cell: (c) => rate(c.writes_per_second) },
      { id: "until", title: "Ends", align: "right", value: (c) => (c.until ? Date.parse(c.until) : undefined), cell: (c) => (c.until ? until(c.until, ctx.now()) : "when it is removed") },
      { id: "refused", title: "Refused", align: "right", value: (c) => c.refused, cell: (c) => plural(c.refused, "writer") },
      { id: "do", title: "", value: () => undefined, cell: (c) => html`<button class="quiet" @click=${() => ctx.openAction("removeCap", { cap: c.id })}>Remove…</button>` },
    ],
  });
}

function backups(page, ctx) {
  return dataTable({
    id: "backups", noun: "backup", ctx, rows: page.items, rowKey: (b) => b.name + b.restored, sort: "-created",
    empty: emptyState("No backups", page.note ? sentence(page.note) : "A backup is of one moment, made while clients go on."),
    columns: [
      { id: "name", title: "Name", value: (b) => b.name, cell: (b) => html`<b>${b.name}</b>${b.restored ? html` ${badge("restored")}` : nothing}` },
      { id: "state", title: "State", value: (b) => (b.complete ? "complete" : "not complete"), cell: (b) => html`${badge(b.complete ? "complete" : "not complete", b.complete ? "ok" : "warn")}${b.job ? html` <a href=${link("jobs/" + b.job)}>job ${b.job}</a>` : nothing}` },
      { id: "bytes", title: "Size", align: "right", value: (b) => b.bytes, cell: (b) => bytes(b.bytes) },
      { id: "files", title: "Files", align: "right", value: (b) => b.files, cell: (b) => count(b.files) },
      { id: "created", title: "Made", align: "right", value: (b) => Date.parse(b.created), cell: (b) => timeAgo(b.created, ctx) },
      { id: "do", title: "", value: () => undefined, cell: (b) => html`<span class="toolbar nowrap">${b.restored ? nothing : html`<button class="quiet" @click=${() => ctx.openAction("verifyBackup", { name: b.name })}>Verify…</button>`}<button class="quiet" @click=${() => ctx.openAction("deleteBackup", { name: b.name, restored: b.restored ?? false })}>Delete…</button></span>` },
    ],
  });
}
