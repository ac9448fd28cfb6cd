// One job: progress, cost as expected and as it came, and what can be done about it.

import { apiPath } from "../lib/api.js";
import { stateBadge } from "../lib/decisions.js";
import { bar, html, icon, link, nothing, panel, timeAgo, whenLoaded } from "../lib/dom.js";
import { byteRate, bytes, count, dateTime, seconds, share } from "../lib/format.js";
import { jobActions } from "../lib/jobs.js";
import { hasEnded, jobTitle } from "../lib/progress.js";
import { sameData } from "../lib/same.js";

const path = (id) => apiPath("/jobs/" + encodeURIComponent(id));

/** @type {import("../app.js").View} */
export default {
  title: (params) => "Job " + params.id,
  watch: ({ id }) => [path(id)],
  render(data, { id }, ctx) {
    return html`
      <nav class="small" aria-label="Path"><a href="#/jobs">Jobs</a> › ${id}</nav>
      ${panel("Progress", whenLoaded(data.get(path(id)), (job) => details(job, ctx), 8))}
      ${sameData({ curl: path(id), cleave: `cleave job watch ${id}` })}`;
  },
};

function details(job, ctx) {
  const fact = (name, value) => html`<dt>${name}</dt><dd>${value}</dd>`;
  const expected = job.expected;
  return html`<div class="stack">
    <div class="toolbar"><span class="strong">${jobTitle(job)}</span>${stateBadge(job.state)}<span class="muted">${job.phase === job.state ? "" : job.phase}</span><span class="grow"></span>${jobActions(job, ctx)}</div>
    <div>${bar(job.progress, { tone: job.state === "done" ? "ok" : "", label: share(job.progress) + " done" })}</div>
    ${job.why ? html`<div class="notice ${job.state === "failed" ? "bad" : "warn"}">${icon("warn")}<div>${job.why}</div></div>` : nothing}
    ${job.result ? html`<div class="notice ok">${icon("ok")}<div>${job.result}</div></div>` : nothing}
    <dl class="facts">
      ${fact("Done", share(job.progress))}
      ${hasEnded(job) ? nothing : fact("Time left", job.eta_seconds === undefined ? "not known yet" : "about " + seconds(job.eta_seconds))}
      ${fact("Copied", html`${bytes(job.bytes)}, ${count(job.rows)} rows${expected ? html` <span class="muted">of about ${bytes(expected.bytes)}, ${count(expected.rows)} rows</span>` : nothing}`)}
      ${fact("Rate", html`${byteRate(job.rate_bytes_per_second)}, ${job.limit_bytes_per_second ? "at most " + byteRate(job.limit_bytes_per_second) : "no bound"}`)}
      ${fact("Writes paused", html`${seconds(job.pause_seconds)} at longest, ${seconds(job.pause_total_seconds)} together${expected ? html` <span class="muted">of ${seconds(expected.pause_seconds)} expected for each range</span>` : nothing}`)}
      ${job.shard ? fact("Shard", html`<a href=${link("shards/" + job.shard)}>shard ${job.shard}</a>`) : nothing}
      ${job.from ? fact("From", "group " + job.from) : nothing}
      ${job.to ? fact("To", "group " + job.to) : nothing}
      ${job.parent ? fact("Part of", html`<a href=${link("jobs/" + job.parent)}>job ${job.parent}</a>`) : nothing}
      ${job.children ? fact("Parts", count(job.children)) : nothing}
      ${fact("Begun", html`${dateTime(job.created)} <span class="muted">${timeAgo(job.created, ctx)}</span>`)}
      ${job.ended ? fact("Ended", html`${dateTime(job.ended)} <span class="muted">after ${seconds((Date.parse(job.ended) - Date.parse(job.created)) / 1000)}</span>`) : nothing}
    </dl>
  </div>`;
}
