// What can be done about a job.

import { html, nothing } from "./dom.js";
import { hasEnded } from "./progress.js";

export function jobActions(job, ctx) {
  if (hasEnded(job)) return nothing;
  const button = (name, action) => html`<button @click=${() => ctx.openAction(action, { job: job.id })}>${name}</button>`;
  const isCopy = job.kind === "move" || job.kind === "drain" || job.kind === "regroup";
  return html`<span class="toolbar">
    ${job.state === "paused" ? button("Resume…", "resumeJob") : job.state === "running" ? button("Pause…", "pauseJob") : nothing}
    ${job.state === "undoing" ? nothing : button("Cancel…", "cancelJob")}
    ${isCopy ? button("Throttle…", "throttleJob") : nothing}
  </span>`;
}
