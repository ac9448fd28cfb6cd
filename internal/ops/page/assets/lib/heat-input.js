// Pointer, wheel and keys of the heat map: zoom by a box, pan, and a cursor.

/** @typedef {import("./heat-canvas.js").Part} Part */

const dragFrom = 4; // pixels: less is a click
const settleMs = 250; // after the last step of a wheel, the address follows

export class HeatInput {
  /**
   * @param {HTMLCanvasElement} el @param {import("./heat-canvas.js").HeatCanvas} canvas
   * @param {{redraw: () => void, commit: (isStep: boolean) => void, reset: () => void, pin: () => void, unpin: () => void,
   *   isPinned: boolean, isZoomed: boolean, point: (cell: any, at?: {x: number, y: number}, byKeyboard?: boolean) => void}} view
   */
  constructor(el, canvas, view) {
    this.el = el;
    this.canvas = canvas;
    this.view = view;
    /** @type {{x: number, y: number, kind: "zoom"|"pan", part: Part, moved: boolean}|null} */
    this.drag = null;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.settling = undefined;
    this.aborter = new AbortController();
    const { signal } = this.aborter;
    el.addEventListener("pointerdown", (e) => this.onDown(e), { signal });
    el.addEventListener("pointermove", (e) => this.onMove(e), { signal });
    el.addEventListener("pointerup", (e) => this.onUp(e), { signal });
    el.addEventListener("pointercancel", () => this.cancel(), { signal });
    el.addEventListener("pointerleave", () => this.drag || view.point(null), { signal });
    el.addEventListener("dblclick", () => view.reset(), { signal });
    el.addEventListener("wheel", (e) => this.onWheel(e), { signal, passive: false });
    el.addEventListener("keydown", (e) => this.onKey(e), { signal });
  }

  close() {
    this.aborter.abort();
    clearTimeout(this.settling);
  }

  /** Reports whether what is seen is being changed: new data does not move it then. */
  get isBusy() {
    return this.drag !== null || this.settling !== undefined;
  }

  /** @param {PointerEvent} e */
  place(e) {
    const box = this.el.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  }

  /** @param {PointerEvent} e */
  onDown(e) {
    if (e.button > 1) return;
    const at = this.place(e);
    const pans = e.shiftKey || e.button === 1 || e.pointerType === "touch";
    this.drag = { ...at, kind: pans ? "pan" : "zoom", part: { ...this.canvas.part }, moved: false };
    if (e.pointerType !== "touch" || this.view.isZoomed) this.el.setPointerCapture(e.pointerId);
  }

  /** @param {PointerEvent} e */
  onMove(e) {
    const at = this.place(e);
    const { drag, canvas } = this;
    if (!drag) {
      this.view.point(canvas.cellAt(at.x, at.y), at);
      return;
    }
    if (!drag.moved && Math.hypot(at.x - drag.x, at.y - drag.y) < dragFrom) return;
    if (!drag.moved) this.view.unpin();
    drag.moved = true;
    if (drag.kind === "pan") this.panTo(drag.part, at.x - drag.x, at.y - drag.y);
    else canvas.box = this.boxTo(drag, at);
    this.view.redraw();
  }

  /** The box from where the drag began. A drag along one axis alone keeps all of the other. @param {{x: number, y: number}} from @param {{x: number, y: number}} to */
  boxTo(from, to) {
    const { canvas } = this;
    const clampX = (x) => Math.min(Math.max(x, canvas.gutter), canvas.gutter + canvas.plotWidth);
    const clampY = (y) => Math.min(Math.max(y, 18), 18 + canvas.plotHeight);
    let [x0, x1] = [clampX(Math.min(from.x, to.x)), clampX(Math.max(from.x, to.x))];
    let [y0, y1] = [clampY(Math.min(from.y, to.y)), clampY(Math.max(from.y, to.y))];
    const thin = 8;
    if (x1 - x0 < thin) [x0, x1] = [canvas.gutter, canvas.gutter + canvas.plotWidth];
    if (y1 - y0 < thin) [y0, y1] = [18, 18 + canvas.plotHeight];
    return { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
  }

  /** @param {PointerEvent} e */
  onUp(e) {
    const { drag, canvas } = this;
    this.drag = null;
    if (!drag) return;
    const at = this.place(e);
    if (!drag.moved) {
      const cell = canvas.cellAt(at.x, at.y);
      if (this.view.isPinned || !cell) return this.view.unpin();
      this.view.point(cell, at);
      return this.view.pin();
    }
    if (drag.kind === "zoom" && canvas.box) {
      const { x, y, width, height } = canvas.box;
      canvas.box = null;
      canvas.part = this.limit({ t0: canvas.timeAt(x), t1: canvas.timeAt(x + width), r0: Math.floor(canvas.rowOf(y)), r1: Math.ceil(canvas.rowOf(y + height)) });
    }
    this.view.commit(drag.kind === "zoom");
    this.view.redraw();
  }

  cancel() {
    this.drag = null;
    this.canvas.box = null;
    this.view.redraw();
  }

  /** @param {Part} from @param {number} dx @param {number} dy in pixels */
  panTo(from, dx, dy) {
    const { canvas } = this;
    const dt = (-dx / canvas.plotWidth) * (from.t1 - from.t0);
    const dr = (-dy / canvas.plotHeight) * (from.r1 - from.r0);
    canvas.part = this.limit({ t0: from.t0 + dt, t1: from.t1 + dt, r0: from.r0 + dr, r1: from.r1 + dr });
  }

  /** Keeps a part within the map, and no smaller than a few cells of it. @param {Part} part @returns {Part} */
  limit(part) {
    const { base } = this.canvas;
    if (!base) return part;
    const within = (a, b, low, high, least) => {
      const size = Math.min(Math.max(b - a, least), high - low);
      const begin = Math.min(Math.max(a, low), high - size);
      return [begin, begin + size];
    };
    const [t0, t1] = within(part.t0, part.t1, base.from, base.to, 3 * base.step);
    const [r0, r1] = within(part.r0, part.r1, 0, base.rows.length, 1);
    return { t0, t1, r0, r1 };
  }

  /** @param {number} factor above 1 zooms out @param {{x: number, y: number}} [at] */
  zoom(factor, at) {
    const { canvas } = this;
    const { part } = canvas;
    const x = at ? Math.min(Math.max((at.x - canvas.gutter) / canvas.plotWidth, 0), 1) : 0.5;
    const y = at ? Math.min(Math.max((at.y - 18) / canvas.plotHeight, 0), 1) : 0.5;
    const time = (part.t1 - part.t0) * factor;
    const rows = (part.r1 - part.r0) * factor;
    const t = part.t0 + x * (part.t1 - part.t0);
    const r = part.r0 + y * (part.r1 - part.r0);
    canvas.part = this.limit({ t0: t - x * time, t1: t + (1 - x) * time, r0: r - y * rows, r1: r + (1 - y) * rows });
    this.settle();
  }

  settle() {
    this.view.redraw();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.settling = undefined;
      this.view.commit(false);
    }, settleMs);
  }

  /** Zooms with Ctrl, pans what is zoomed; else the page scrolls. @param {WheelEvent} e */
  onWheel(e) {
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      this.zoom(Math.exp(Math.min(Math.max(e.deltaY, -100), 100) / 250), { x: e.offsetX, y: e.offsetY });
      return;
    }
    if (!this.view.isZoomed) return;
    e.preventDefault();
    const [dx, dy] = e.shiftKey ? [e.deltaY, 0] : [e.deltaX, e.deltaY];
    this.panTo(this.canvas.part, -dx, -dy);
    this.settle();
  }

  /** @param {KeyboardEvent} e */
  onKey(e) {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const { view, canvas } = this;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const arrow = arrows[/** @type {keyof typeof arrows} */ (e.key)];
    if (arrow && e.shiftKey) {
      this.panTo(canvas.part, -arrow[0] * canvas.plotWidth * 0.1, -arrow[1] * canvas.plotHeight * 0.1);
      this.settle();
    } else if (arrow) this.moveCursor(arrow[0], arrow[1]);
    else if (e.key === "Enter" || e.key === " ") view.pin();
    else if (e.key === "+" || e.key === "=") this.zoom(0.5);
    else if (e.key === "-") this.zoom(2);
    else if (e.key === "0" || (e.key === "Escape" && !view.isPinned && !canvas.cursor)) view.reset();
    else if (e.key === "Escape") view.unpin();
    else return;
    e.preventDefault();
  }

  /** By a cell, or by as many as a pixel has. @param {number} dx @param {number} dy */
  moveCursor(dx, dy) {
    const { canvas, view } = this;
    const heat = canvas.detail ?? canvas.base;
    if (!heat) return;
    let { row, column } = canvas.cursor?.heat === heat ? canvas.cursor : { row: -1, column: -1 };
    if (row < 0) {
      const middle = canvas.cellAt(canvas.gutter + canvas.plotWidth / 2, 18 + canvas.plotHeight / 2);
      row = middle?.row ?? 0;
      column = middle?.column ?? 0;
    } else {
      row = Math.min(Math.max(row + dy, 0), heat.rows.length - 1);
      column = Math.min(Math.max(column + dx, 0), heat.columns - 1);
    }
    view.point({ heat, row, column }, undefined, true);
  }
}
