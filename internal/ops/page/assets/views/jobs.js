// Jobs: what goes on in the background, and what went on.

import { apiPath } from "../lib/api.js";
import { stateBadge } from "../lib/decisions.js";
import { bar, emptyState, html, link, panel, timeAgo, whenLoaded } from "../lib/dom.js";
import { byteRate, bytes, seconds, share } from "../lib/format.js";
import { jobActions } from "../lib/jobs.js";
import { hasEnded, jobProgress, jobTitle } from "../lib/progress.js";
import { sameData } from "../lib/same.js";
import { dataTable } from "../lib/table.js";

const path = apiPath("/jobs", { limit: 1000 });

/** @type {import("../app.js").View} */
export default {
  title: "Jobs",
  watch: () => [path],
  render(data, _params, ctx) {
    return html`
      ${panel("Under way", whenLoaded(data.get(path), (page) => underWay(page.items.filter((j) => !hasEnded(j)), ctx)))}
      ${panel("All jobs", whenLoaded(data.get(path), (page) => table(page.items, ctx), 8), { flush: true })}
      ${sameData({ curl: path, cleave: "cleave job list" })}`;
  },
};

/** @param {any[]} jobs @param {any} ctx */
function underWay(jobs, ctx) {
  if (jobs.length === 0) return html`<p class="muted">No job is under way. Splits, merges, moves and backups appear here while they run.</p>`;
  return html`<ul class="lines">${jobs.map((j) => html`<li>${jobProgress(j, ctx)}<div class="toolbar">${jobActions(j, ctx)}</div></li>`)}</ul>`;
}

const took = (job) => (Date.parse(job.ended ?? job.changed) - Date.parse(job.created)) / 1000;

/** @param {any[]} rows @param {any} ctx */
function table(rows, ctx) {
  return dataTable({
    noun: "job", ctx, rows, rowKey: (j) => j.id, sort: "-created", open: (j) => link("jobs/" + j.id),
    empty: emptyState("No jobs yet", "The server makes them to split, move and merge shards. You can too: see Shards."),
    columns: [
      { id: "job", title: "Job", value: (j) => jobTitle(j), cell: (j) => html`<a href=${link("jobs/" + j.id)}>${jobTitle(j)}</a>` },
      { id: "id", title: "Id", value: (j) => j.id, cell: (j) => j.id },
      { id: "state", title: "State", value: (j) => j.state, cell: (j) => stateBadge(j.state) },
      { id: "progress", title: "Progress", value: (j) => j.progress, cell: (j) => html`<span class="toolbar nowrap">${bar(j.progress, { tone: j.state === "done" ? "ok" : "", label: share(j.progress) + " done" })} ${share(j.progress)}</span>` },
      { id: "bytes", title: "Copied", align: "right", value: (j) => j.bytes, cell: (j) => bytes(j.bytes) },
      { id: "rate", title: "Rate", align: "right", value: (j) => j.rate_bytes_per_second, cell: (j) => (j.bytes ? byteRate(j.rate_bytes_per_second) : "–") },
      { id: "pause", title: "Writes paused", align: "right", help: "The longest time in which its range took no writes", value: (j) => j.pause_seconds, cell: (j) => (j.pause_seconds ? seconds(j.pause_seconds) : "–") },
      { id: "took", title: "Took", align: "right", value: took, cell: (j) => seconds(took(j)) },
      { id: "created", title: "Begun", align: "right", value: (j) => Date.parse(j.created), cell: (j) => timeAgo(j.created, ctx) },
    ],
  });
}
