// Hot keys: which are asked for most, by whom, and what helps.

import { apiPath } from "../lib/api.js";
import { html, link, nothing, panel, whenLoaded } from "../lib/dom.js";
import { seconds, share } from "../lib/format.js";
import { findingNotice } from "../lib/hot.js";
import { hotKeysTable } from "../lib/hotkeys.js";
import { sameData } from "../lib/same.js";

const planPath = apiPath("/plan");
const keyspacesPath = apiPath("/keyspaces", { limit: 1000 });
const measures = { ops: "Operations", bytes: "Bytes", time: "Time", conflicts: "Conflicts" };
const keysPath = (params) => apiPath("/hotkeys", { by: params.by ?? "ops", n: params.n ?? 50, keyspace: params.keyspace });

/** @type {import("../app.js").View} */
export default {
  title: "Hot keys",
  watch: (params) => [keysPath(params), planPath, keyspacesPath],
  render(data, params, ctx) {
    const plan = data.get(planPath);
    const found = (plan?.found ?? []).filter((f) => f.class !== "cold");
    const classes = new Map(found.filter((f) => f.key).map((f) => [f.key, f]));
    const by = params.by ?? "ops";
    return html`
      ${found.length ? panel("What is wrong, and what helps", html`<div class="hot-list">${found.map(findingNotice)}</div>`) : nothing}
      ${panel("Keys asked for most", whenLoaded(data.get(keysPath(params)), (h) => html`<p class="inset small muted">${summary(h)}</p>${hotKeysTable(h, ctx, { classes })}`, 8), {
        flush: true,
        aside: html`
          <label class="field inline"><span>Keyspace</span><select @change=${(e) => ctx.setParams({ keyspace: e.target.value || undefined })}>
            <option value="">all</option>${(data.get(keyspacesPath)?.items ?? []).map((k) => html`<option value=${k.name} ?selected=${k.name === params.keyspace}>${k.name}</option>`)}
          </select></label>
          <span class="segments" role="group" aria-label="Compared by">${Object.entries(measures).map(([id, name]) => html`<a href=${link("hotkeys", { ...params, by: id === "ops" ? undefined : id })} aria-current=${id === by ? "true" : nothing}>${name}</a>`)}</span>`,
      })}
      ${sameData({ curl: keysPath(params), cleave: `cleave hotkeys${by === "ops" ? "" : " --by " + by}${params.keyspace ? " --keyspace " + params.keyspace : ""} -n ${params.n ?? 50}` })}`;
  },
};

function summary(h) {
  if (!h.keys.length) return "";
  return `An estimate from a sample of the last ${seconds(h.window_seconds)}. Evenness ${share(h.spread)}: 100 % is even, 0 % is one key.`;
}
