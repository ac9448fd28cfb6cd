// How patterns of the heat map are labelled and explained.

import { badge, commandLine, html, icon, keyText, link, nothing, shardLink } from "./dom.js";
import { sentence, share, times } from "./format.js";
import { valueText } from "./heat-data.js";

/** @typedef {import("./heat-data.js").Pattern} Pattern */

/** @param {Pattern} p */
export const patternName = (p) => ({ diagonal: "Moving edge", horizontal: p.key === undefined ? "Hot range" : "Hot key", vertical: "Burst" })[p.kind] ?? p.kind;

/** @param {Pattern} p */
export const patternShape = (p) => ({ diagonal: "↘", horizontal: "—", vertical: "|" })[p.kind] ?? "";

/** @param {Pattern} p */
export const patternMeasure = (p) => (p.kind === "vertical" ? times(p.strength) + " the usual" : share(Math.min(1, p.strength)));

const explanations = {
  diagonal: "A diagonal is a hot place that moves: keys are asked for in their order. Each new key lies behind the last, so one shard at a time has all of it.",
  horizontal: "A line across is a hot place that stays: one key, or a few neighbours, has a large part of all requests.",
  vertical: "A line down is a burst: for a short time nearly all keys are asked for more than usual. It is no matter of a shard.",
};

/**
 * What a pattern means, and what to do about it.
 * @param {Pattern} p @param {string} metric @param {any} plan @param {any} ctx @param {() => void} close
 */
export function patternDetails(p, metric, plan, ctx, close) {
  const found = (plan?.found ?? []).filter((f) => p.shard && f.shard === p.shard && f.class !== "cold");
  const remedy = found.find((f) => f.remedy)?.remedy ?? p.remedy;
  return html`<section class="panel heat-details" aria-label="The pattern ${patternName(p)}">
    <header><h2>${patternShape(p)} ${patternName(p)}</h2>${badge(patternMeasure(p), "hot")}<span class="muted small">${valueText(metric, p.rate)}</span>
      <div class="aside"><button class="quiet" aria-label="Close" @click=${close}>${icon("close")}</button></div></header>
    <p>${sentence(p.text)}</p>
    <p class="muted">${explanations[/** @type {keyof typeof explanations} */ (p.kind)]}</p>
    ${found.map((f) => html`<p>${badge(f.class, "hot")} ${shardLink(f.shard)}: ${f.evidence}</p>`)}
    <h3>What helps</h3>
    ${remedyLines(remedy)}
    <p class="toolbar">
      ${p.shard ? html`<a class="button" href=${link("shards/" + p.shard)}>Explain shard ${p.shard}</a>` : nothing}
      ${p.key === undefined ? nothing : html`<a class="button" href=${link("explain", { keyspace: p.keyspace, key: p.key })}>Explain ${keyText(p.key, 30)}</a>`}
      ${p.kind === "vertical" ? html`<a class="button" href=${link("events")}>What happened then</a>` : html`<a class="button" href=${link("hotkeys", { keyspace: p.keyspace })}>Hot keys and clients</a>`}
      ${p.kind === "diagonal" ? html`<a class="button" href=${link("advisor")}>Find a better key</a>` : nothing}
      ${p.kind === "horizontal" && p.key === undefined && p.shard ? html`<button @click=${() => ctx.openAction("splitShard", { shard: p.shard })}>Split shard ${p.shard}</button>` : nothing}
    </p>
  </section>`;
}

/** A remedy with its commands (in backquotes) to be copied. @param {string} text */
export function remedyLines(text) {
  const parts = text.split("`");
  return html`<p>${sentence(parts.filter((_, i) => i % 2 === 0).join(" … ").replace(/[:\s…]+$/, "").trim())}</p>
    ${parts.filter((_, i) => i % 2 === 1).map((command) => html`<p>${commandLine(command)}</p>`)}`;
}
