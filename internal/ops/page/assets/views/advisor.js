// Advisor: how to find a better key for the data and the traffic of this server.

import { apiPath } from "../lib/api.js";
import { classBadge } from "../lib/decisions.js";
import { commandLine, emptyState, html, keyText, link, nothing, panel, whenLoaded } from "../lib/dom.js";
import { sameData } from "../lib/same.js";

const planPath = apiPath("/plan");
const keyspacesPath = apiPath("/keyspaces", { limit: 1000 });
const adviceClasses = ["hot key", "moving edge", "hot range", "hot prefix", "cross-shard contention"];

/** @type {import("../app.js").View} */
export default {
  title: "Advisor",
  watch: () => [planPath, keyspacesPath],
  render(data) {
    return html`
      ${panel("What a better key would help", whenLoaded(data.get(planPath), (plan) => findings(plan)))}
      ${panel("Ask for advice", whenLoaded(data.get(keyspacesPath), (page) => ask(page.items)))}
      ${sameData({ curl: planPath, cleave: "cleave plan" })}`;
  },
};

/** @param {any} plan */
function findings(plan) {
  const found = plan.found.filter((/** @type {any} */ f) => adviceClasses.includes(f.class));
  if (found.length === 0) return emptyState("Nothing that another key layout would help is seen now", "Hot keys, moving edges and hot ranges appear here with the advice that fits.");
  return html`<ul class="lines">${found.map((/** @type {any} */ f) => html`<li>
    <div class="toolbar">${classBadge(f.class)}${f.key ? keyText(f.key, 64) : nothing}<a href=${link("shards/" + f.shard)}>shard ${f.shard}</a></div>
    <div class="muted small">${f.evidence}</div>${f.remedy ? html`<div>${f.remedy}</div>` : nothing}</li>`)}</ul>`;
}

/** @param {any[]} keyspaces */
function ask(keyspaces) {
  const address = location.protocol === "https:" ? location.origin : location.host;
  return html`<div class="stack">
    <p>The advisor samples the traffic of this server for a while, tries layouts of the key on it with the server’s own routing, and ranks them: how even writes would be, how many shards a read would ask, what it costs.</p>
    <ul class="lines">${keyspaces.filter((k) => !k.index).map((k) => html`<li><p class="small muted">Keyspace ${k.name}</p>${commandLine(`cleave advise --live --addr ${address} --keyspace ${k.name}`)}</li>`)}</ul>
    <p>With a file of records instead, and the queries that are asked of them:</p>
    ${commandLine("cleave advise orders.csv --queries queries.jsonl --current id --layout range --shards 16")}
  </div>`;
}
