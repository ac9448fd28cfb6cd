// Advisor: how to find a better key for the data and the traffic of this server.

import { apiPath } from "../lib/api.js";
import { commandLine, emptyState, html, panel, whenLoaded } from "../lib/dom.js";
import { hotCards, hotPaths, seenIn } from "../lib/hot.js";
import { sameData } from "../lib/same.js";

const keyspacesPath = apiPath("/keyspaces", { limit: 1000 });
const notableShare = 0.2;

/** @type {import("../app.js").View} */
export default {
  title: "Advisor",
  watch: () => [...Object.values(hotPaths), keyspacesPath],
  render(data, _params, ctx) {
    return html`
      ${panel("What a better key would help", whenLoaded(data.get(hotPaths.plan), () => findings(seenIn(data, ctx))))}
      ${panel("Ask for advice", whenLoaded(data.get(keyspacesPath), (page) => ask(page.items)))}
      ${sameData({ curl: hotPaths.plan, cleave: "cleave plan" })}`;
  },
};

/** @param {import("../lib/hot.js").Seen} seen */
function findings(seen) {
  const cards = hotCards(seen, notableShare);
  if (cards.length === 0) return emptyState("Nothing that another key layout would help is seen now", "Hot keys, moving edges and hot ranges appear here with the advice that fits.");
  return html`<div class="hot-list">${cards}</div>`;
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
