// The axes of the heat map: which times and keys have a label.

import { startText } from "./heat-data.js";

const minute = 60_000;
const steps = [10_000, 30_000, minute, 2 * minute, 5 * minute, 10 * minute, 30 * minute, 60 * minute, 180 * minute, 360 * minute, 720 * minute, 1440 * minute, 4 * 1440 * minute, 7 * 1440 * minute];

/** Times at even distances, local ones. @param {number} from @param {number} to in ms @param {number} most @returns {{at: number, text: string}[]} */
export function timeTicks(from, to, most) {
  const step = steps.find((s) => (to - from) / s <= most) ?? steps[steps.length - 1];
  const offset = new Date(from).getTimezoneOffset() * minute;
  const ticks = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) {
    const d = new Date(at);
    const clock = d.toLocaleTimeString("en-GB", step < minute ? {} : { hour: "2-digit", minute: "2-digit" });
    const isDay = step >= 1440 * minute || (d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0);
    ticks.push({ at, text: isDay ? d.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : clock });
  }
  return ticks;
}

/**
 * Labels of rows that do not overlap: begins of keyspaces first, then keys that have a row of their own and are hot, then
 * begins of shards, then what there is room for.
 * @param {import("./heat-data.js").Heat} heat @param {(row: number) => number} yOf @param {number} height of the plot
 * @param {number} room between two labels @param {Float64Array} weights of rows
 * @returns {{y: number, text: string, strong: boolean, row: number}[]}
 */
export function rowLabels(heat, yOf, height, room, weights) {
  const wanted = [];
  const { rows } = heat;
  let heaviest = 0;
  for (const w of weights) heaviest = Math.max(heaviest, w);
  for (let row = 0; row < rows.length; row++) {
    const top = yOf(row);
    const bottom = yOf(row + 1);
    if (bottom <= 0 || top >= height) continue;
    const previous = rows[row - 1];
    const isFirst = !previous || previous.keyspace !== rows[row].keyspace;
    const isHot = rows[row].single && weights[row] > heaviest / 8;
    const isShard = !previous || previous.shard !== rows[row].shard;
    if (isFirst && !rows[row].keyspace) continue;
    const y = Math.min(Math.max((rows[row].single ? (top + bottom) / 2 : top) + 4, 10), height - 4);
    wanted.push({ row, y, strong: isFirst, text: isFirst ? rows[row].keyspace : startText(rows[row]), rank: isFirst ? 3 : isHot ? 2 + weights[row] / heaviest / 2 : isShard ? 1 : 0 });
  }
  wanted.sort((a, b) => b.rank - a.rank || a.row - b.row);
  /** @type {typeof wanted} */
  const chosen = [];
  const taken = new Set();
  for (const label of wanted) {
    const bin = Math.floor(label.y / room);
    if (chosen.length > 60) break;
    if ([bin - 1, bin, bin + 1].some((b) => taken.has(b) && chosen.some((c) => Math.abs(c.y - label.y) < room))) continue;
    taken.add(bin);
    chosen.push(label);
  }
  return chosen;
}

/** The end of a text, which is where keys differ, as wide as there is room. @param {CanvasRenderingContext2D} g @param {string} text @param {number} width */
export function fitText(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let shown = text;
  while (shown.length > 1 && g.measureText("…" + shown).width > width) shown = shown.slice(1);
  return "…" + shown;
}
