// Draws a heat map: the cells at the resolution of the data, scaled without smoothing, and over them axes, events, the
// cursor and what is being selected. It keeps which part is seen, in times and rows of the base map; a detail has finer
// rows for a part of these.

import { fitText, rowLabels, timeTicks } from "./heat-axes.js";
import { levelsInDecade, rowAt, valueOf } from "./heat-data.js";
import { ramp } from "./heat-ramp.js";

/** @typedef {import("./heat-data.js").Heat} Heat */
/** @typedef {{t0: number, t1: number, r0: number, r1: number}} Part times in ms, rows of the base, ends not included */
/** @typedef {{time: number, kind: string, text: string, rowStart: number, rowEnd: number}} HeatEvent rows of the base */
/** @typedef {{heat: Heat, row: number, column: number}} Cell */

const axisHeight = 22;
const colors = { back: "#0b0d14", text: "#c3cad5", strong: "#f2f4f8", line: "#3a4352", mark: "#ffffff", shard: "#6f7c8f" };
const font = "11px system-ui, sans-serif";
const mono = "11px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const decades = 3;
/** The letter and colour of each kind of event. */
export const eventKinds = {
  split: { letter: "S", name: "split", color: "#7ee0ff" }, merge: { letter: "M", name: "merge", color: "#8df0b0" },
  move: { letter: "V", name: "move", color: "#c9b6ff" }, throttle: { letter: "T", name: "throttle", color: "#ffb3c7" },
  other: { letter: "E", name: "other event", color: "#dfe5ee" },
};

export class HeatCanvas {
  /** @param {HTMLCanvasElement} cells @param {HTMLCanvasElement} overlay */
  constructor(cells, overlay) {
    this.cells = cells;
    this.overlay = overlay;
    this.width = 0;
    this.height = 0;
    this.gutter = 150;
    this.scale = 1;
    /** @type {Heat|null} */
    this.base = null;
    /** @type {Heat|null} */
    this.detail = null;
    this.detailRows = { first: 0, last: 0 };
    /** @type {Part} */
    this.part = { t0: 0, t1: 1, r0: 0, r1: 1 };
    /** @type {HeatEvent[]} */
    this.events = [];
    /** @type {import("./heat-data.js").Pattern|null} */
    this.selected = null;
    /** @type {{x: number, y: number, width: number, height: number}|null} */
    this.box = null;
    /** @type {Cell|null} */
    this.cursor = null;
    this.brightness = 0;
    this.hatch = makeHatch();
  }

  /** @param {number} width @param {number} height in CSS pixels */
  resize(width, height) {
    this.width = width;
    this.height = height;
    this.gutter = width < 600 ? 92 : 168;
    this.scale = devicePixelRatio || 1;
    for (const canvas of [this.cells, this.overlay]) {
      canvas.width = Math.round(width * this.scale);
      canvas.height = Math.round(height * this.scale);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
  }

  get plotWidth() {
    return Math.max(1, this.width - this.gutter - 10);
  }

  get plotHeight() {
    return Math.max(1, this.height - axisHeight - 18);
  }

  /** @param {Heat|null} base @param {Heat|null} detail @param {string} [start] @param {string} [end] of the rows of the detail */
  setData(base, detail, start, end) {
    this.base = base;
    this.detail = base && detail;
    if (!base) return;
    this.detailRows = { first: start ? rowAt(base, start) : 0, last: end ? rowAt(base, end) : base.rows.length };
    if (this.detailRows.last <= this.detailRows.first) this.detailRows.last = this.detailRows.first + 1;
  }

  /** @param {number} time */
  xOf = (time) => this.gutter + ((time - this.part.t0) / (this.part.t1 - this.part.t0)) * this.plotWidth;

  /** @param {number} row of the base */
  yOf = (row) => 18 + ((row - this.part.r0) / (this.part.r1 - this.part.r0)) * this.plotHeight;

  /** @param {number} x */
  timeAt = (x) => this.part.t0 + ((x - this.gutter) / this.plotWidth) * (this.part.t1 - this.part.t0);

  /** @param {number} y @returns {number} a row of the base, with its fraction */
  rowOf = (y) => this.part.r0 + ((y - 18) / this.plotHeight) * (this.part.r1 - this.part.r0);

  /** The rows of a map in those of the base. @param {Heat} heat @param {number} row */
  toBaseRow(heat, row) {
    if (heat !== this.detail) return row;
    const { first, last } = this.detailRows;
    return first + (row / heat.rows.length) * (last - first);
  }

  /** @param {number} x @param {number} y @returns {Cell|null} */
  cellAt(x, y) {
    if (!this.base || x < this.gutter || x > this.gutter + this.plotWidth || y < 18 || y > 18 + this.plotHeight) return null;
    const time = this.timeAt(x);
    const row = this.rowOf(y);
    const { first, last } = this.detailRows;
    const heat = this.detail && time >= this.detail.from && time < this.detail.to && row >= first && row < last ? this.detail : this.base;
    const column = Math.floor((time - heat.from) / heat.step);
    const inHeat = Math.floor(heat === this.detail ? ((row - first) / (last - first)) * heat.rows.length : row);
    if (column < 0 || column >= heat.columns || inHeat < 0 || inHeat >= heat.rows.length) return null;
    return { heat, row: inHeat, column };
  }

  /** @param {Heat} heat @param {{first_row: number, last_row: number, first_column: number, last_column: number}} box */
  boxOf(heat, box) {
    const x = this.xOf(heat.from + box.first_column * heat.step);
    const y = this.yOf(this.toBaseRow(heat, box.first_row));
    return { x, y, width: this.xOf(heat.from + (box.last_column + 1) * heat.step) - x, height: this.yOf(this.toBaseRow(heat, box.last_row + 1)) - y };
  }

  /** The cells as a picture with a pixel each, made once for each map and brightness. @param {Heat} heat */
  imageOf(heat) {
    const top = Math.max(this.base?.top ?? 1, this.detail?.top ?? 1);
    const look = `${this.brightness} ${top}`;
    if (heat.image && heat.look === look) return heat.image;
    const canvas = document.createElement("canvas");
    canvas.width = heat.columns;
    canvas.height = heat.rows.length;
    const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = g.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const palette = new Uint32Array(256);
    for (let level = 1; level < 256; level++) {
      const [red, green, blue] = ramp[colorOf(level, top, this.brightness)];
      palette[level] = 0xff000000 | (blue << 16) | (green << 8) | red; // bytes are little endian in all browsers' machines
    }
    for (let i = 0; i < pixels.length; i++) pixels[i] = palette[heat.levels[i]];
    g.putImageData(image, 0, 0);
    heat.image = canvas;
    heat.look = look;
    return canvas;
  }

  draw() {
    this.drawCells();
    this.drawOverlay();
  }

  drawCells() {
    const g = /** @type {CanvasRenderingContext2D} */ (this.cells.getContext("2d", { alpha: false }));
    g.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    g.fillStyle = colors.back;
    g.fillRect(0, 0, this.width, this.height);
    if (!this.base) return;
    g.save();
    g.beginPath();
    g.rect(this.gutter, 18, this.plotWidth, this.plotHeight);
    g.clip();
    g.fillStyle = /** @type {CanvasPattern} */ (g.createPattern(this.hatch, "repeat"));
    g.fillRect(this.gutter, 18, this.plotWidth, this.plotHeight);
    g.imageSmoothingEnabled = false;
    for (const heat of this.detail ? [this.base, this.detail] : [this.base]) this.drawHeat(g, heat);
    g.restore();
  }

  /** Draws what is seen of a map, and no more: a part that is far larger than the canvas takes long. @param {CanvasRenderingContext2D} g @param {Heat} heat */
  drawHeat(g, heat) {
    const c0 = Math.max(0, Math.floor((this.part.t0 - heat.from) / heat.step));
    const c1 = Math.min(heat.columns, Math.ceil((this.part.t1 - heat.from) / heat.step));
    const rows = heat === this.detail ? this.detailRows : { first: 0, last: heat.rows.length };
    const each = (rows.last - rows.first) / heat.rows.length;
    const r0 = Math.max(0, Math.floor((this.part.r0 - rows.first) / each));
    const r1 = Math.min(heat.rows.length, Math.ceil((this.part.r1 - rows.first) / each));
    if (c1 <= c0 || r1 <= r0) return;
    const x = this.xOf(heat.from + c0 * heat.step);
    const y = this.yOf(rows.first + r0 * each);
    const right = this.xOf(heat.from + c1 * heat.step);
    const bottom = this.yOf(rows.first + r1 * each);
    if (heat === this.detail) {
      g.fillStyle = colors.back;
      g.fillRect(x, y, right - x, bottom - y);
      g.fillStyle = /** @type {CanvasPattern} */ (g.createPattern(this.hatch, "repeat"));
      g.fillRect(x, y, right - x, bottom - y);
    }
    g.drawImage(this.imageOf(heat), c0, r0, c1 - c0, r1 - r0, x, y, right - x, bottom - y);
  }

  drawOverlay() {
    const g = /** @type {CanvasRenderingContext2D} */ (this.overlay.getContext("2d"));
    g.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    if (!this.base) return;
    this.drawTimes(g);
    this.drawRows(g);
    g.save();
    g.beginPath();
    g.rect(this.gutter, 0, this.plotWidth, this.height);
    g.clip();
    this.drawEvents(g);
    if (this.selected) this.outline(g, this.boxOf(this.detail ?? this.base, this.selected), colors.strong, []);
    for (const pattern of (this.detail ?? this.base).patterns) {
      if (pattern !== this.selected) this.outline(g, this.boxOf(this.detail ?? this.base, pattern), "#ffffffb0", [5, 4]);
    }
    this.drawCursor(g);
    if (this.box) {
      g.fillStyle = "#ffffff22";
      g.fillRect(this.box.x, this.box.y, this.box.width, this.box.height);
      this.outline(g, this.box, colors.strong, [3, 3]);
    }
    g.restore();
  }

  /** A frame that is seen on dark and bright cells. @param {CanvasRenderingContext2D} g @param {{x: number, y: number, width: number, height: number}} box @param {string} color @param {number[]} dash */
  outline(g, { x, y, width, height }, color, dash) {
    const at = /** @type {const} */ ([Math.round(x) - 2.5, Math.round(Math.max(y, 18)) - 1.5, Math.round(width) + 5, Math.round(height) + 4]);
    g.lineWidth = 3;
    g.setLineDash([]);
    g.strokeStyle = "#0b0d14a0";
    g.strokeRect(...at);
    g.lineWidth = 1;
    g.setLineDash(dash);
    g.strokeStyle = color;
    g.strokeRect(...at);
    g.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} g */
  drawTimes(g) {
    g.font = font;
    g.textAlign = "center";
    const bottom = 18 + this.plotHeight;
    for (const { at, text } of timeTicks(this.part.t0, this.part.t1, Math.max(2, Math.floor(this.plotWidth / 84)))) {
      const x = this.xOf(at);
      g.fillStyle = colors.line;
      g.fillRect(Math.round(x), bottom, 1, 5);
      if (x < this.gutter + 18 || x > this.width - 20) continue;
      g.fillStyle = colors.text;
      g.fillText(text, x, bottom + 17);
    }
  }

  /** @param {CanvasRenderingContext2D} g */
  drawRows(g) {
    const { base } = this;
    if (!base) return;
    const heat = this.detail ?? base;
    const yOf = (row) => this.yOf(this.toBaseRow(heat, row));
    // Shards are a strip of two tones beside the cells, so that their borders are seen.
    let tone = 0;
    for (let row = 0; row < heat.rows.length; row++) {
      if (row > 0 && heat.rows[row].shard !== heat.rows[row - 1].shard) tone = 1 - tone;
      const top = Math.max(18, yOf(row));
      const bottom = Math.min(18 + this.plotHeight, yOf(row + 1));
      if (bottom <= top) continue;
      g.fillStyle = tone ? colors.shard : colors.line;
      g.fillRect(this.gutter - 7, top, 5, bottom - top + 0.5);
    }
    g.textAlign = "right";
    for (const { y, text, strong } of rowLabels(heat, (row) => yOf(row) - 18, this.plotHeight, 15, weightsOf(heat))) {
      g.font = strong ? "600 " + font : mono;
      g.fillStyle = strong ? colors.strong : colors.text;
      g.fillText(fitText(g, text, this.gutter - 18), this.gutter - 12, 18 + y);
    }
  }

  /** @param {CanvasRenderingContext2D} g */
  drawEvents(g) {
    g.font = "600 10px system-ui, sans-serif";
    g.textAlign = "center";
    let right = -Infinity;
    for (const event of this.events) {
      const x = Math.round(this.xOf(event.time));
      if (x < this.gutter || x > this.gutter + this.plotWidth) continue;
      const { letter, color } = eventKinds[/** @type {keyof typeof eventKinds} */ (event.kind)] ?? eventKinds.other;
      const top = Math.max(18, this.yOf(event.rowStart));
      const bottom = Math.min(18 + this.plotHeight, Math.max(this.yOf(event.rowEnd), this.yOf(event.rowStart) + 3));
      if (event.rowEnd === 0) {
        g.fillStyle = color + "38";
        g.fillRect(x, 18, 1, this.plotHeight);
      } else if (bottom >= 18 && top <= 18 + this.plotHeight) {
        g.fillStyle = "#0b0d14";
        g.fillRect(x - 1.5, top, 4, bottom - top);
        g.fillStyle = color;
        g.fillRect(x - 0.5, top, 2, bottom - top);
      }
      if (x - right < 15) continue; // their letters would be one over the other
      right = x;
      g.fillStyle = color;
      g.beginPath();
      g.roundRect(x - 6.5, 2, 14, 14, 3);
      g.fill();
      g.fillStyle = "#0b0d14";
      g.fillText(letter, x + 0.5, 12.5);
    }
  }

  /** @param {CanvasRenderingContext2D} g */
  drawCursor(g) {
    if (!this.cursor) return;
    const { heat, row, column } = this.cursor;
    if (heat !== this.base && heat !== this.detail) return;
    const box = this.boxOf(heat, { first_row: row, last_row: row, first_column: column, last_column: column });
    g.fillStyle = "#ffffff30";
    g.fillRect(box.x, 18, Math.max(1, box.width), this.plotHeight);
    g.fillRect(this.gutter, box.y, this.plotWidth, Math.max(1, box.height));
    this.outline(g, { ...box, width: Math.max(1, box.width), height: Math.max(1, box.height) }, colors.strong, []);
  }

  /** The event at a place, if there is one. @param {number} x @param {number} y */
  eventAt(x, y) {
    const near = this.events.filter((e) => Math.abs(this.xOf(e.time) - x) <= 7 && (y <= 18 || (y >= this.yOf(e.rowStart) - 3 && y <= this.yOf(e.rowEnd) + 3 && Math.abs(this.xOf(e.time) - x) <= 4)));
    return near[0] ?? null;
  }

  /** The values that the ends and the middle of the colours stand for. */
  legend() {
    const top = Math.max(this.base?.top ?? 1, this.detail?.top ?? 1);
    const heat = this.base;
    if (!heat) return [];
    return [0, 1, 2, 3].map((n) => valueOf(heat, Math.max(1, top - (decades - n) * levelsInDecade)));
  }
}

/** The colour of a level: by its logarithm, three decades up to the top. @param {number} level @param {number} top @param {number} brightness -1 to 1 */
function colorOf(level, top, brightness) {
  if (level <= 1) return 0;
  const part = 1 - (top - level) / (levelsInDecade * decades);
  return Math.round(255 * Math.min(1, Math.max(0, part)) ** (2 ** -(2 * brightness)));
}

/** @type {WeakMap<Heat, Float64Array>} */
const weights = new WeakMap();

/** The sums of rows. @param {Heat} heat */
function weightsOf(heat) {
  let sums = weights.get(heat);
  if (!sums) {
    sums = new Float64Array(heat.rows.length);
    for (let row = 0; row < heat.rows.length; row++) {
      for (let column = 0; column < heat.columns; column++) {
        const level = heat.levels[row * heat.columns + column];
        if (level) sums[row] += 2 ** ((level - 1) / 8) - 1;
      }
    }
    weights.set(heat, sums);
  }
  return sums;
}

/** What is not known. */
function makeHatch() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.strokeStyle = "#2c3442";
  g.lineWidth = 1;
  g.beginPath();
  for (const at of [-8, 0, 8]) {
    g.moveTo(at, 8);
    g.lineTo(at + 8, 0);
  }
  g.stroke();
  return canvas;
}
