// A job under way: what it does, how far it is, how long it will take.

import { bar, html, link, nothing } from "./dom.js";
import { byteRate, bytes, seconds, share } from "./format.js";
import { stateBadge } from "./decisions.js";

export const hasEnded = (job) => ["done", "undone", "failed"].includes(job.state);

/** "move shard 4 from group 1 to group 2" @param {any} job */
export function jobTitle(job) {
  const shard = job.shard ? ` shard ${job.shard}` : "";
  if (job.from === job.to) return job.kind + shard;
  const from = job.from && job.to ? ` from group ${job.from}` : job.from ? ` group ${job.from}` : "";
  const to = job.to ? ` to group ${job.to}` : "";
  return job.kind + shard + from + to;
}

export function jobProgress(job, _ctx) {
  const left = job.eta_seconds === undefined ? "" : `, ${seconds(job.eta_seconds)} left`;
  return html`<div class="toolbar"><a class="strong" href=${link("jobs/" + job.id)}>${jobTitle(job)}</a>${stateBadge(job.state)}<span class="muted small">${job.phase === job.state ? "" : job.phase}</span></div>
    ${hasEnded(job) ? nothing : html`<div>${bar(job.progress, { label: `${share(job.progress)} done` })}</div>
    <div class="muted small">${share(job.progress)} · ${bytes(job.bytes)} at ${byteRate(job.rate_bytes_per_second)}${left}</div>`}
    ${job.why ? html`<div class="small tone-warn">${job.why}</div>` : nothing}
    ${job.result ? html`<div class="small">${job.result}</div>` : nothing}`;
}
