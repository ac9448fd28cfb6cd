// What has happened to shards, as marks on the heat map.

/** @typedef {import("./heat-canvas.js").HeatEvent} HeatEvent */

/**
 * Splits, merges, moves and throttles, which the server has placed.
 * @param {any} heat an answer of /api/v1/heatmap @returns {HeatEvent[]}
 */
export function eventsOf(heat) {
  return (heat.events ?? []).map(({ event, first_row: first, last_row: last }) => ({
    time: Date.parse(event.time), kind: event.kind, text: event.message, rowStart: first, rowEnd: last + 1,
  }));
}
