// Saves the heat map as a picture: title, axes, cells and what the colours mean.

import { patternMeasure, patternName } from "./heat-patterns.js";
import { rampColor } from "./heat-ramp.js";
import { valueText } from "./heat-data.js";

/** @param {import("./heat-canvas.js").HeatCanvas} view @param {{title: string, subtitle: string, metric: string}} about */
export async function savePicture(view, { title, subtitle, metric }) {
  const head = 52;
  const foot = 34;
  const canvas = document.createElement("canvas");
  canvas.width = view.width * view.scale;
  canvas.height = (view.height + head + foot) * view.scale;
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.scale(view.scale, view.scale);
  g.fillStyle = "#0b0d14";
  g.fillRect(0, 0, view.width, view.height + head + foot);
  g.fillStyle = "#f2f4f8";
  g.font = "600 16px system-ui, sans-serif";
  g.fillText(title, 12, 24);
  g.fillStyle = "#c3cad5";
  g.font = "12px system-ui, sans-serif";
  g.fillText(subtitle, 12, 42);
  g.drawImage(view.cells, 0, head, view.width, view.height);
  g.drawImage(view.overlay, 0, head, view.width, view.height);
  const heat = view.detail ?? view.base;
  for (const pattern of heat?.patterns ?? []) {
    const box = view.boxOf(/** @type {any} */ (heat), pattern);
    const text = `${patternName(pattern)}${pattern.key === undefined ? "" : " " + pattern.key}, ${patternMeasure(pattern)}`;
    const x = Math.min(Math.max(box.x, view.gutter) + 4, view.width - 160);
    const y = head + Math.min(Math.max(box.y, 22), view.height - 40) + 12;
    g.fillStyle = "#0b0d14d0";
    g.fillRect(x - 3, y - 11, g.measureText(text).width + 6, 15);
    g.fillStyle = "#ffffff";
    g.fillText(text, x, y);
  }
  const top = view.height + head + 6;
  for (let i = 0; i < 256; i++) {
    g.fillStyle = rampColor(i);
    g.fillRect(view.gutter + i, top, 1, 10);
  }
  g.fillStyle = "#c3cad5";
  g.textAlign = "center";
  view.legend().forEach((value, i) => g.fillText((i === 0 ? "≤ " : "") + valueText(metric, value), view.gutter + i * 85, top + 23));
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error("the browser has made no picture");
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = "cleave-heatmap-" + new Date().toISOString().slice(0, 19).replaceAll(":", "") + ".png";
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}
