// Changing something: fields, plan, difference, confirmation, job.

import { render } from "../vendor/lit/lit-html.js";
import { actions } from "./actions.js";
import { apiPath, del, post, token } from "./api.js";
import { openDialog } from "./dialog.js";
import { commandLine, errorState, html, icon, link, nothing, skeleton } from "./dom.js";
import { bytes, count, seconds, sentence, times } from "./format.js";
import { watch } from "./live.js";
import { hasEnded, jobProgress } from "./progress.js";
import { withAddress } from "./same.js";
import { askForToken } from "./signin.js";

/**
 * Opens the dialog of an action of the table in actions.js.
 * @param {string} name @param {Record<string, unknown>} preset values of its fields @param {any} ctx
 */
export async function openAction(name, preset, ctx) {
  const action = actions[name];
  if (!action) throw new Error("no action " + name);
  if (!token() && !(await askForToken({ reason: `“${action.title}” needs the token of the server.` }))) return;
  new ActionDialog(action, preset, ctx).open();
}

class ActionDialog {
  /** @param {import("./actions.js").Action} action @param {Record<string, unknown>} preset @param {any} ctx */
  constructor(action, preset, ctx) {
    this.action = action;
    this.ctx = ctx;
    this.fields = action.fields.filter((f) => !f.hidden);
    /** @type {Record<string, any>} */
    this.values = {};
    for (const f of action.fields) this.values[f.name] = preset[f.name] ?? f.initial ?? (f.kind === "check" ? false : "");
    this.plan = null;
    this.planned = null; // the request that was planned: what is confirmed is what was seen
    this.result = null;
    this.job = null;
    /** @type {any} */
    this.error = null;
    this.busy = false;
    this.closeStream = () => {};
    const opened = openDialog({ label: action.title, onClose: () => this.closeStream() });
    this.dialog = opened.dialog;
    this.close = opened.close;
  }

  open() {
    this.draw();
    this.dialog.showModal();
    // With nothing to fill in the plan comes at once.
    if (this.fields.every((f) => f.optional || f.kind === "check" || this.values[f.name] !== "")) this.makePlan();
  }

  /** @param {Event} [event] */
  async makePlan(event) {
    event?.preventDefault();
    await this.run(async () => {
      const request = this.action.request(this.values);
      const answer = await send(request, true);
      this.planned = request;
      this.plan = answer.plan;
    });
  }

  async confirm() {
    await this.run(async () => {
      this.result = await send(this.planned, false);
      if (this.result.job) this.followJob(this.result.job);
    });
    this.ctx.refresh();
  }

  /** @param {any} job */
  followJob(job) {
    this.job = job;
    if (hasEnded(job)) return;
    const path = apiPath("/jobs/" + encodeURIComponent(job.id));
    this.closeStream = watch([path], {
      onData: (_path, body) => {
        this.job = body;
        this.draw();
        if (hasEnded(body)) this.closeStream();
      },
      onError: (_path, error) => {
        this.error = error;
        this.draw();
      },
      onState: () => {},
    });
  }

  /** @param {() => Promise<void>} step */
  async run(step) {
    this.busy = true;
    this.error = null;
    this.draw();
    try {
      await step();
    } catch (error) {
      this.error = error;
    }
    this.busy = false;
    this.draw();
    /** @type {HTMLElement|null} */ (this.dialog.querySelector(".form > footer :is(.primary, .danger)"))?.focus();
  }

  /** @param {string} name @param {any} value */
  setValue(name, value) {
    this.values[name] = value;
    this.plan = null;
    this.error = null;
    this.draw();
  }

  draw() {
    render(html`<form class="form" @submit=${(/** @type {Event} */ e) => this.makePlan(e)}>
      <header><h2>${this.action.title}</h2></header>
      ${this.action.about && !this.result ? html`<p class="muted">${this.action.about}</p>` : nothing}
      ${this.result ? nothing : this.fields.map((f) => this.field(f))}
      ${this.busy && !this.plan ? skeleton(3) : nothing}
      ${this.plan && !this.result ? difference(this.plan) : nothing}
      ${this.plan && !this.result ? html`<p class="small muted">The same in a terminal: ${commandLine(withAddress(this.action.command(this.values)))}</p>` : nothing}
      ${this.result ? outcome(this.result, this.job, this.ctx) : nothing}
      ${this.error ? errorState(this.error) : nothing}
      <footer>${this.buttons()}</footer>
    </form>`, this.dialog);
  }

  buttons() {
    if (this.result) return html`<button type="button" class="primary" @click=${this.close}>Close</button>`;
    const cancel = html`<button type="button" @click=${this.close}>Cancel</button>`;
    if (!this.plan) return html`${cancel}<button class="primary" ?disabled=${this.busy}>Plan</button>`;
    return html`${cancel}<button type="button" class=${this.plan.irreversible ? "danger" : "primary"} ?disabled=${this.busy} @click=${() => this.confirm()}>${this.action.verb}</button>`;
  }

  /** @param {import("./actions.js").Field} f */
  field(f) {
    const set = (/** @type {Event} */ e) => {
      const input = /** @type {HTMLInputElement} */ (e.target);
      this.setValue(f.name, f.kind === "check" ? input.checked : input.value);
    };
    if (f.kind === "check") {
      return html`<label class="field check"><input type="checkbox" .checked=${Boolean(this.values[f.name])} @change=${set}><span>${f.label}</span></label>`;
    }
    if (f.choices) {
      return html`<label class="field"><span>${f.label}</span><select @change=${set}>${f.choices.map((c) => html`<option value=${c.value} ?selected=${c.value === String(this.values[f.name])}>${c.label}</option>`)}</select>${hint(f)}</label>`;
    }
    return html`<label class="field"><span>${f.label}</span>
      <input .value=${String(this.values[f.name])} ?required=${!f.optional} inputmode=${f.kind === "number" ? "decimal" : "text"} placeholder=${f.placeholder ?? nothing}
        autocomplete="off" spellcheck="false" @input=${set}>${hint(f)}</label>`;
  }
}

/** @param {import("./actions.js").Field} f */
const hint = (f) => (f.help ? html`<small>${f.help}</small>` : nothing);

/** @param {any} request @param {boolean} dryRun */
function send({ path, params, body, method }, dryRun) {
  const full = apiPath(path, params);
  return method === "DELETE" ? del(full, { dryRun }) : post(full, body, { dryRun });
}

/** What would be done, and what it would cost. @param {any} plan */
function difference(plan) {
  const price = plan.price;
  return html`<section class="difference" aria-label="Plan" aria-live="polite">
    <p class="strong">${sentence(plan.summary)}</p>
    ${plan.steps?.length ? html`<ul>${plan.steps.map((s) => html`<li>${s}</li>`)}</ul>` : nothing}
    ${price ? html`<dl class="facts">
      <dt>Copied</dt><dd>${price.rows ? `${bytes(price.bytes)}, ${count(price.rows)} rows` : "nothing"}</dd>
      <dt>Takes</dt><dd>about ${seconds(price.seconds)}</dd>
      <dt>Writes pause</dt><dd>${price.pause_seconds ? "about " + seconds(price.pause_seconds) + " for each range" : "no"}</dd>
      <dt>Bytes of the fullest group</dt><dd>${times2(price.skew_before)} → <b>${times2(price.skew_after)}</b> the mean</dd>
    </dl>` : nothing}
    ${plan.irreversible ? html`<div class="notice bad">${icon("warn")}<div>This cannot be undone.</div></div>` : nothing}
  </section>`;
}

const times2 = (x) => (x < 10 ? x.toFixed(2) + "×" : times(x));

function outcome(result, job, ctx) {
  return html`<section class="difference" aria-label="Outcome" aria-live="polite">
    ${job ? html`${jobProgress(job, ctx)}<p class="small"><a href=${link("jobs/" + job.id)} @click=${closeDialog}>All about job ${job.id}</a>${hasEnded(job) ? "" : html` <span class="muted">It goes on when this is closed.</span>`}</p>`
      : html`<div class="notice ok">${icon("ok")}<div>Done: ${result.plan.summary}.</div></div>`}
  </section>`;
}

/** @param {Event} event */
function closeDialog(event) {
  /** @type {HTMLElement} */ (event.currentTarget).closest("dialog")?.close();
}
