// What has happened to shards, as marks on the heat map.

import { rowAt, rowsOfShard } from "./heat-data.js";

/** @typedef {import("./heat-canvas.js").HeatEvent} HeatEvent */

/**
 * Decisions and events of the server with a place: splits, merges, moves and throttles.
 * @param {import("./heat-data.js").Heat} heat @param {any} status @param {any} decisions a page of them @returns {HeatEvent[]}
 */
export function eventsOf(heat, status, decisions) {
  if (heat.events) { // the server has placed them
    return heat.events.map(({ event, first_row: first, last_row: last }) => ({ time: Date.parse(event.time), kind: event.kind, text: event.message, rowStart: first, rowEnd: last + 1 }));
  }
  /** @type {HeatEvent[]} */
  const events = [];
  for (const d of decisions?.items ?? []) {
    if (d.change === "keep" || d.outcome === "refused" || d.outcome === "proposed") continue;
    const target = d.change === "move" ? ` to group ${d.to}` : d.change === "merge" ? ` with shard ${d.with}` : "";
    events.push(place(heat, { time: Date.parse(d.time), kind: d.change, text: `${d.change} shard ${d.shard}${target}: ${d.reason}` }, d));
  }
  for (const e of status?.events ?? []) {
    const kind = kindOf(e.kind + " " + e.message);
    const time = Date.parse(e.time);
    // A decision and the event of what it began are one mark.
    if (!kind || events.some((other) => other.kind === kind && Math.abs(other.time - time) < 15_000)) continue;
    const shard = Number(/shard (\d+)/.exec(e.message)?.[1] ?? e.shard ?? 0);
    events.push(place(heat, { time, kind, text: e.message }, { ...e, shard }));
  }
  return events.filter((e) => e.time >= heat.from && e.time <= heat.to).sort((a, b) => a.time - b.time);
}

/** An event of a shard that is no more has a mark in time alone. @param {import("./heat-data.js").Heat} heat @param {{time: number, kind: string, text: string}} event @param {any} source @returns {HeatEvent} */
function place(heat, event, source) {
  if (source.start_at !== undefined) {
    return { ...event, rowStart: rowAt(heat, source.start_at), rowEnd: source.end_at ? rowAt(heat, source.end_at) : heat.rows.length };
  }
  const rows = source.shard ? rowsOfShard(heat, source.shard) : null;
  return { ...event, rowStart: rows?.first ?? 0, rowEnd: rows ? rows.last + 1 : 0 };
}

/** @param {string} text */
const kindOf = (text) => ["split", "merge", "move", "throttle"].find((kind) => text.includes(kind) || (kind === "move" && text.includes("moving"))) ?? "";
