// A heat map as the API sends it, ready to be drawn and asked.

import { byteRate, rate, seconds } from "./format.js";

/**
 * @typedef {{keyspace: string, slot?: number, start_key?: string, single?: boolean, after?: boolean, at: string,
 *   shard: number, group: number, shards: number}} Row
 * @typedef {{kind: string, first_row: number, last_row: number, first_column: number, last_column: number, strength: number,
 *   rate: number, keyspace?: string, shard?: number, key?: string, text: string, remedy: string}} Pattern
 * @typedef {{metric: string, unit: string, rows: Row[], columns: number, from: number, to: number, step: number,
 *   levels: Uint8Array, unitOf: number, top: number, patterns: Pattern[], events: any[]|null, image: HTMLCanvasElement|null, look: string}} Heat
 *   from, to and step: milliseconds; levels: by row and column, 0 is not known; top: the highest; image: see drawImage
 */

/** @type {WeakMap<object, Heat>} */
const parsed = new WeakMap();

/** Levels in ten times as much: see rateOf in package heat. */
export const levelsInDecade = 8 * Math.log2(10);

/** @param {any} body @returns {Heat|null} null without data */
export function parseHeat(body) {
  if (!body || body instanceof Error || !body.levels) return null;
  let heat = parsed.get(body);
  if (!heat) {
    const levels = Uint8Array.from(atob(body.levels), (c) => c.charCodeAt(0));
    const step = body.step_seconds * 1000;
    const from = Date.parse(body.columns[0]);
    let top = 1;
    for (const level of levels) top = Math.max(top, level);
    heat = {
      metric: body.metric, unit: body.unit, rows: body.rows, columns: body.columns.length, from, to: from + step * body.columns.length, step,
      levels, unitOf: body.level_unit || 1, top, patterns: body.patterns ?? [], events: body.events ?? null, image: null, look: "",
    };
    parsed.set(body, heat);
  }
  return heat;
}

/** @param {Heat} heat @param {number} level @returns {number} NaN for what is not known */
export const valueOf = (heat, level) => (level === 0 ? NaN : (2 ** ((level - 1) / 8) - 1) * heat.unitOf);

/** @param {Heat} heat @param {number} row @param {number} column */
export const cellOf = (heat, row, column) => valueOf(heat, heat.levels[row * heat.columns + column]);

/** @param {string} metric @param {number} value */
export function valueText(metric, value) {
  if (Number.isNaN(value)) return "not known";
  if (metric === "p99") return seconds(value);
  return metric.startsWith("bytes") ? byteRate(value) : rate(value);
}

/** Where a row begins, in words. @param {Row} row */
export function startText(row) {
  if (row.start_key !== undefined) return row.after ? "behind " + row.start_key : row.start_key;
  if (row.slot !== undefined) return "slot " + row.slot;
  return row.keyspace ? "the first key" : "catalog";
}

/** The keys of a row, in words. @param {Heat} heat @param {number} row */
export function rangeText(heat, row) {
  const from = heat.rows[row];
  if (from.single) return from.start_key ?? "";
  const next = heat.rows[row + 1];
  if (!from.keyspace) return "catalog";
  const isLast = !next || next.keyspace !== from.keyspace;
  if (from.start_key === undefined && from.slot !== undefined) {
    if (isLast) return `slots from ${from.slot} on`;
    if (next.start_key === undefined && next.slot !== undefined) return next.slot - 1 > from.slot ? `slots ${from.slot}–${next.slot - 1}` : `slot ${from.slot}`;
  }
  return `${startText(from)} – ${isLast ? "the end" : startText(next)}`;
}

/** The first row that begins at a place, or behind it. @param {Heat} heat @param {string} at */
export function rowAt(heat, at) {
  let low = 0;
  let high = heat.rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (heat.rows[middle].at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The hottest rows of a part of a map, by their mean.
 * @param {Heat} heat @param {{firstRow: number, lastRow: number, firstColumn: number, lastColumn: number}} part @param {number} n
 */
export function hottestRows(heat, part, n) {
  const rows = [];
  let all = 0;
  for (let row = part.firstRow; row <= part.lastRow; row++) {
    let sum = 0;
    let known = 0;
    let peak = 0;
    for (let column = part.firstColumn; column <= part.lastColumn; column++) {
      const value = cellOf(heat, row, column);
      if (Number.isNaN(value)) continue;
      known++;
      sum += value;
      peak = Math.max(peak, value);
    }
    const mean = known ? sum / known : 0;
    all += mean;
    const { keyspace, shard, group, single, start_key: key, at } = heat.rows[row];
    rows.push({ at, keyspace, shard, group, key: single ? key : undefined, range: rangeText(heat, row), mean, peak, share: 0 });
  }
  for (const row of rows) row.share = all ? row.mean / all : 0;
  return rows.filter((row) => row.mean > 0).sort((a, b) => b.mean - a.mean).slice(0, n);
}
