// Hot keys: which are asked for most, by whom, and what helps.

import { apiPath } from "../lib/api.js";
import { classBadge } from "../lib/decisions.js";
import { html, keyText, link, nothing, panel, whenLoaded } from "../lib/dom.js";
import { seconds, share } from "../lib/format.js";
import { hotKeysTable } from "../lib/hotkeys.js";
import { sameData } from "../lib/same.js";

const planPath = apiPath("/plan");
const keyspacesPath = apiPath("/keyspaces", { limit: 1000 });
const measures = { ops: "Operations", bytes: "Bytes", time: "Time", conflicts: "Conflicts" };
const keysPath = (/** @type {any} */ params) => apiPath("/hotkeys", { by: params.by ?? "ops", n: params.n ?? 50, keyspace: params.keyspace });

/** @type {import("../app.js").View} */
export default {
  title: "Hot keys",
  watch: (params) => [keysPath(params), planPath, keyspacesPath],
  render(data, params, ctx) {
    const plan = data.get(planPath);
    const found = (plan?.found ?? []).filter((/** @type {any} */ f) => f.class !== "cold");
    const classes = new Map(found.filter((/** @type {any} */ f) => f.key).map((/** @type {any} */ f) => [f.key, f]));
    const by = params.by ?? "ops";
    return html`
      ${found.length ? panel("What is wrong, and what helps", html`<ul class="lines">${found.map(remedy)}</ul>`) : nothing}
      ${panel("Keys asked for most", whenLoaded(data.get(keysPath(params)), (h) => html`<p class="inset small muted">${summary(h)}</p>${hotKeysTable(h, ctx, { classes })}`, 8), {
        flush: true,
        aside: html`
          <label class="field inline"><span>Keyspace</span><select @change=${(/** @type {any} */ e) => ctx.setParams({ keyspace: e.target.value || undefined })}>
            <option value="">all</option>${(data.get(keyspacesPath)?.items ?? []).map((/** @type {any} */ k) => html`<option value=${k.name} ?selected=${k.name === params.keyspace}>${k.name}</option>`)}
          </select></label>
          <span class="segments" role="group" aria-label="Compared by">${Object.entries(measures).map(([id, name]) => html`<a href=${link("hotkeys", { ...params, by: id === "ops" ? undefined : id })} aria-current=${id === by ? "true" : nothing}>${name}</a>`)}</span>`,
      })}
      ${sameData({ curl: keysPath(params), cleave: `cleave hotkeys${by === "ops" ? "" : " --by " + by}${params.keyspace ? " --keyspace " + params.keyspace : ""} -n ${params.n ?? 50}` })}`;
  },
};

/** @param {any} f */
function remedy(f) {
  return html`<li><div class="toolbar">${classBadge(f.class)}${f.key ? keyText(f.key, 64) : nothing}<a href=${link("shards/" + f.shard)}>shard ${f.shard}</a></div>
    <div class="muted small">${f.evidence}</div>${f.remedy ? html`<div>${f.remedy}</div>` : nothing}</li>`;
}

/** @param {any} h */
function summary(h) {
  if (!h.keys.length) return "";
  return `An estimate from a sample of the last ${seconds(h.window_seconds)}. Evenness ${share(h.spread)}: 100 % is even, 0 % is one key.`;
}
