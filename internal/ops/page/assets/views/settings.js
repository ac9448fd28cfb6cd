// Settings of the server, and the knobs of the balancer.

import { apiPath } from "../lib/api.js";
import { badge, html, nothing, panel, whenLoaded } from "../lib/dom.js";
import { sameData } from "../lib/same.js";
import { dataTable } from "../lib/table.js";

const configPath = apiPath("/config", { limit: 1000 });
const knobsPath = apiPath("/knobs", { limit: 1000 });

/** @type {import("../app.js").View} */
export default {
  title: "Settings",
  every: 2,
  watch: () => [configPath, knobsPath],
  render(data, _params, ctx) {
    return html`
      ${panel("Settings of the server", whenLoaded(data.get(configPath), (p) => settings(p.items, ctx), 8), { flush: true, aside: "a change holds until the server ends" })}
      ${sameData({ curl: configPath, cleave: "cleave config list" })}
      ${panel("Knobs of the balancer", whenLoaded(data.get(knobsPath), (p) => knobs(p.items, ctx), 8), { flush: true, aside: "a change is kept" })}
      ${sameData({ curl: knobsPath, cleave: "cleave knob list" })}`;
  },
};

/** @param {any[]} rows @param {any} ctx */
function settings(rows, ctx) {
  return dataTable({
    noun: "setting", ctx, rows, rowKey: (s) => s.name,
    columns: [
      { id: "name", title: "Name", value: (s) => s.name, cell: (s) => html`<code class="nowrap">${s.name}</code>` },
      { id: "value", title: "Value", value: (s) => s.value, cell: (s) => html`${value(s.value)} ${s.unit ? html`<span class="muted">${s.unit}</span>` : nothing}${s.pending ? html` ${badge("waits for a restart: " + s.pending, "warn")}` : nothing}` },
      { id: "source", title: "Set by", value: (s) => s.source, cell: (s) => html`<span title=${s.from || nothing}>${s.source === "default" ? html`<span class="muted">default</span>` : badge(s.source, s.source === "runtime" ? "warn" : "info")}</span>` },
      { id: "meaning", title: "Meaning", value: (s) => s.meaning, cell: (s) => html`<span class="muted">${s.meaning}</span>` },
      { id: "live", title: "Changes", value: (s) => (s.live ? "live" : "restart"), cell: (s) => (s.live ? html`<button class="quiet" aria-label="Change ${s.name}" @click=${() => ctx.openAction("setSetting", { name: s.name })}>Change…</button>` : html`<span class="muted nowrap">with a restart</span>`) },
    ],
  });
}

/** @param {any[]} rows @param {any} ctx */
function knobs(rows, ctx) {
  return dataTable({
    id: "knobs", noun: "knob", ctx, rows, rowKey: (k) => k.name,
    columns: [
      { id: "name", title: "Name", value: (k) => k.name, cell: (k) => html`<code class="nowrap">${k.name}</code>` },
      { id: "value", title: "Value", value: (k) => k.value, cell: (k) => html`${value(k.value)}${k.value === k.default ? nothing : html` ${badge("changed", "warn")}`}` },
      { id: "default", title: "Default", value: (k) => k.default, cell: (k) => html`<code class="muted">${k.default}</code>` },
      { id: "help", title: "Meaning", value: (k) => k.help, cell: (k) => html`<span class="muted">${k.help}</span>` },
      { id: "do", title: "Changes", value: () => undefined, cell: (k) => html`<button class="quiet" aria-label="Change ${k.name}" @click=${() => ctx.openAction("setKnob", { name: k.name })}>Change…</button>` },
    ],
  });
}

/** @param {string} text */
const value = (text) => (text === "" ? html`<span class="muted">none</span>` : html`<code>${text}</code>`);
