// Lines over time.

import uPlot from "../vendor/uplot/uplot.js";
import { clock } from "./format.js";
import { color, onTheme } from "./theme.js";

/**
 * @typedef {{label: string, token: string, values: (number|null)[]}} Series token: a colour of app.css
 * @typedef {{times: number[], series: Series[], format: (n: number) => string, tick?: (n: number) => string, height?: number}} Lines times: Unix seconds
 */

/** @type {WeakMap<HTMLElement, {draw: (lines: Lines) => void}>} */
const charts = new WeakMap();

/** Draws lines into an element, or new values into the chart that it has. @param {HTMLElement} el @param {Lines} lines */
export function lineChart(el, lines) {
  let chart = charts.get(el);
  if (!chart) {
    chart = newChart(el);
    charts.set(el, chart);
  }
  chart.draw(lines);
}

/** @param {HTMLElement} el */
function newChart(el) {
  /** @type {any} */
  let plot = null;
  let labels = "";
  /** @type {Lines|null} */
  let last = null;

  const stopTheme = onTheme(() => last && draw(last, true));
  const observer = new ResizeObserver(() => {
    if (!el.isConnected) {
      plot?.destroy();
      stopTheme();
      observer.disconnect();
      charts.delete(el);
    } else if (plot && el.clientWidth > 0 && el.clientWidth !== plot.width) {
      plot.setSize({ width: el.clientWidth, height: plot.height });
    }
  });
  observer.observe(el);

  /** @param {Lines} lines */
  function draw(lines, anew = false) {
    last = lines;
    const data = [lines.times, ...lines.series.map((s) => s.values)];
    const wanted = lines.series.map((s) => s.label).join("\n");
    if (plot && wanted === labels && !anew) {
      plot.setData(data);
      return;
    }
    plot?.destroy();
    labels = wanted;
    plot = new uPlot(options(el, lines), data, el);
  }

  return { draw };
}

/** @param {HTMLElement} el @param {Lines} lines */
function options(el, lines) {
  const line = color("--line");
  const axis = { stroke: color("--muted"), grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, font: "12px system-ui" };
  return {
    width: el.clientWidth || 300,
    height: lines.height ?? 170,
    padding: [8, 8, 0, 0],
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { y: { range: (_u, /** @type {number} */ _min, /** @type {number} */ max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, size: 32, space: 70, values: (_u, /** @type {number[]} */ ticks) => ticks.map(ticks.some((t) => t % 60) ? timeOfDay : hourAndMinute) },
      { ...axis, size: 62, space: 32, values: (_u, /** @type {number[]} */ ticks) => ticks.map(lines.tick ?? lines.format) },
    ],
    series: [
      { label: "Time", value: (_u, /** @type {number|null} */ t) => (t === null ? "–" : timeOfDay(t)) },
      ...lines.series.map((s) => ({
        label: s.label,
        stroke: color(s.token),
        width: 1.5,
        points: { show: false },
        value: (_u, /** @type {number|null} */ n) => (n === null ? "–" : lines.format(n)),
      })),
    ],
  };
}

/** @param {number} t Unix seconds */
const timeOfDay = (t) => clock(new Date(t * 1000));

/** @param {number} t Unix seconds */
const hourAndMinute = (t) => timeOfDay(t).slice(0, 5);
