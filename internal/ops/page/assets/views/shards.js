// Shards: all of them, sorted by what is asked of them.

import { apiPath } from "../lib/api.js";
import { classBadge } from "../lib/decisions.js";
import { bar, emptyState, html, link, nothing, panel, whenLoaded } from "../lib/dom.js";
import { bytes, count, rate, seconds, share } from "../lib/format.js";
import { wholeList } from "../lib/pages.js";
import { sameData } from "../lib/same.js";
import { opsOf, rangeCell, rangeText } from "../lib/shards.js";
import { dataTable } from "../lib/table.js";

const path = apiPath("/shards", { limit: 1000 });
const planPath = apiPath("/plan");

/** @type {import("../app.js").View} */
export default {
  title: "Shards",
  every: 2,
  watch: () => [path, planPath],
  render(data, _params, ctx) {
    const found = new Map((data.get(planPath)?.found ?? []).map((f) => [f.shard, f.class]));
    const aside = html`<button @click=${() => ctx.openAction("splitAtKey")}>Split at a key…</button>
      <button @click=${() => ctx.openAction("presplit")}>Cut a keyspace…</button>
      <button @click=${() => ctx.openAction("rebalance")}>Rebalance…</button>`;
    return html`
      ${panel("All shards", whenLoaded(data.get(path), (page) => table(wholeList(path, page, ctx), found, ctx), 8), { flush: true, aside })}
      ${sameData({ curl: path, cleave: "cleave shard list" })}`;
  },
};

/** @param {any[]} rows @param {Map<number, string>} found @param {any} ctx */
function table(rows, found, ctx) {
  const busiest = rows.reduce((most, s) => Math.max(most, s.load.busy), 0.01);
  return dataTable({
    noun: "shard", ctx, rows, rowKey: (s) => s.id, sort: "-ops",
    open: (s) => link("shards/" + s.id),
    empty: emptyState("No shards"),
    columns: [
      { id: "shard", title: "Shard", width: "95px", value: (s) => s.id, cell: (s) => html`<a href=${link("shards/" + s.id)}>shard ${s.id}</a>` },
      { id: "ops", title: "Operations", align: "right", width: "98px", value: (s) => opsOf(s.load), cell: (s) => html`<b>${rate(opsOf(s.load))}</b>` },
      { id: "busy", title: "Busy", width: "136px", help: "How much of the time of one processor is spent on it", value: (s) => s.load.busy, cell: (s) => html`<span class="toolbar nowrap">${bar(s.load.busy / busiest, { tone: found.has(s.id) ? "hot" : "", label: share(s.load.busy) + " of a processor" })} ${share(s.load.busy)}</span>` },
      { id: "keyspace", title: "Keyspace", width: "88px", value: (s) => s.keyspace, cell: (s) => s.keyspace || html`<span class="muted">–</span>` },
      { id: "keys", title: "Keys", isGiven: true, value: rangeText, cell: (s) => rangeCell(s) },
      { id: "group", title: "Group", align: "right", width: "62px", value: (s) => s.group, cell: (s) => s.group },
      { id: "reads", title: "Reads", align: "right", width: "80px", value: (s) => s.load.reads_per_second, cell: (s) => rate(s.load.reads_per_second) },
      { id: "writes", title: "Writes", align: "right", width: "80px", value: (s) => s.load.writes_per_second, cell: (s) => rate(s.load.writes_per_second) },
      { id: "p99", title: "Service p99", align: "right", width: "94px", help: "What 99 of 100 operations did not exceed; at most twice too large", value: (s) => s.load.service_p99_seconds, cell: (s) => (s.load.service_p99_seconds ? "≤ " + seconds(s.load.service_p99_seconds) : "–") },
      { id: "bytes", title: "Data", align: "right", width: "88px", value: (s) => s.bytes, cell: (s) => bytes(s.bytes) },
      { id: "rows", title: "Rows", align: "right", width: "72px", value: (s) => s.rows, cell: (s) => count(s.rows) },
      { id: "state", title: "State", width: "130px", value: (s) => found.get(s.id) ?? (s.job ? "job " + s.job : ""), cell: (s) => html`${found.has(s.id) ? classBadge(/** @type {string} */ (found.get(s.id))) : nothing}${s.job ? html` <a href=${link("jobs/" + s.job)}>job ${s.job}</a>` : nothing}` },
    ],
  });
}
