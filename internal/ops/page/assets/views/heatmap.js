// The heat map: time across, keys down, colour for how much. Patterns are labelled, and a label opens what helps.

import { render } from "../vendor/lit/lit-html.js";
import { apiPath } from "../lib/api.js";
import { emptyState, errorState, html, icon, keyText, link, nothing, panel, setStyle, shardLink, skeleton } from "../lib/dom.js";
import { clock, dateTime, seconds, share } from "../lib/format.js";
import { HeatCanvas, eventKinds } from "../lib/heat-canvas.js";
import { cellOf, hottestRows, parseHeat, rangeText, valueText } from "../lib/heat-data.js";
import { eventsOf } from "../lib/heat-events.js";
import { HeatInput } from "../lib/heat-input.js";
import { patternDetails, patternMeasure, patternName, patternShape } from "../lib/heat-patterns.js";
import { savePicture } from "../lib/heat-picture.js";
import { sameData } from "../lib/same.js";
import { dataTable } from "../lib/table.js";

const metrics = {
  ops: "Operations", reads: "Reads", writes: "Writes", bytes_in: "Bytes in", bytes_out: "Bytes out", conflicts: "Conflicts", p99: "Service time, p99",
};
const ranges = { "30m": "Last 30 minutes", "1h30m": "Last 1½ hours", "8h": "Last 8 hours", "24h": "Last 24 hours", "168h": "Last 7 days", "840h": "All, up to 5 weeks" };
const defaultRange = "30m";
const tableRows = 20;

/** What is asked of the server. @param {Record<string, string>} params */
function pathsOf(params) {
  const range = params.range in ranges ? params.range : defaultRange;
  const common = { metric: params.metric in metrics ? params.metric : "ops", keyspace: params.keyspace, rows: 512, cells: "levels" };
  const isZoomed = Boolean(params.from || params.start || params.end);
  return {
    base: apiPath("/heatmap", { ...common, from: "-" + range }),
    detail: isZoomed ? apiPath("/heatmap", { ...common, from: params.from || "-" + range, to: params.to, start_at: params.start, end_at: params.end }) : "",
    plan: apiPath("/plan"),
    keyspaces: apiPath("/keyspaces"),
  };
}

/** @type {HeatMapView|null} */
let mounted = null;

/** @type {import("../app.js").View} */
export default {
  title: "Heat map",
  every: 2,
  watch: (params) => Object.values(pathsOf(params)).filter(Boolean),
  mount(el, ctx) {
    mounted = new HeatMapView(el, ctx);
  },
  update(data, params) {
    mounted?.update(data, params);
  },
  unmount() {
    mounted?.close();
    mounted = null;
  },
};

class HeatMapView {
  /** @param {HTMLElement} el @param {import("../app.js").Context} ctx */
  constructor(el, ctx) {
    this.ctx = ctx;
    this.top = document.createElement("div");
    this.stage = document.createElement("div");
    this.rest = document.createElement("div");
    this.top.className = this.rest.className = "stack";
    this.stage.className = "heat-stage";
    const cells = document.createElement("canvas");
    this.overlay = document.createElement("canvas");
    cells.setAttribute("aria-hidden", "true");
    this.overlay.className = "heat-overlay";
    this.overlay.tabIndex = 0;
    this.overlay.setAttribute("role", "application");
    this.overlay.setAttribute("aria-label", "Heat map. Arrow keys move the cursor, Enter pins it, plus and minus zoom, Shift and arrow keys pan, Escape resets. The hottest rows are in a table below.");
    this.labels = document.createElement("div");
    this.labels.className = "heat-labels";
    this.tip = document.createElement("div");
    this.tip.className = "heat-tip";
    this.tip.hidden = true;
    this.said = document.createElement("div");
    this.said.className = "visually-hidden";
    this.said.setAttribute("aria-live", "polite");
    this.stage.append(cells, this.overlay, this.labels, this.tip, this.said);
    el.append(this.top, this.stage, this.rest);

    this.canvas = new HeatCanvas(cells, this.overlay);
    this.input = new HeatInput(this.overlay, this.canvas, this);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.stage);
    /** @type {Map<string, any>} */
    this.data = new Map();
    /** @type {Record<string, string>} */
    this.params = {};
    this.paths = pathsOf({});
    this.frame = 0;
    this.isPinned = false;
    this.address = "";
    this.pictureError = "";
    /** @type {{heat: any, key: string, rows: any[]}} */
    this.hottest = { heat: null, key: "", rows: [] };
  }

  close() {
    this.observer.disconnect();
    this.input.close();
    cancelAnimationFrame(this.frame);
  }

  fit() {
    const width = this.stage.clientWidth;
    if (!width) return;
    this.canvas.resize(width, Math.round(Math.min(680, Math.max(360, innerHeight * 0.62))));
    this.redraw();
  }

  /** @param {Map<string, any>} data @param {Record<string, string>} params */
  update(data, params) {
    this.data = data;
    this.params = params;
    this.paths = pathsOf(params);
    const base = parseHeat(data.get(this.paths.base));
    const detail = parseHeat(data.get(this.paths.detail));
    const { canvas } = this;
    const isNew = base !== canvas.base || detail !== canvas.detail;
    const address = JSON.stringify([params.metric, params.range, params.keyspace, params.from, params.to, params.start, params.end]);
    canvas.brightness = Number(params.bright ?? 0) / 100;
    if (isNew || address !== this.address) {
      canvas.setData(base, detail, params.start, params.end);
      if (base && !this.input.isBusy) canvas.part = this.partOf(base, params);
      if (base) canvas.events = eventsOf(base);
      this.keepSelection();
      if (canvas.cursor && canvas.cursor.heat !== base && canvas.cursor.heat !== detail) this.point(null);
      this.address = address;
    }
    this.renderTop();
    this.renderRest();
    if (!canvas.width) this.fit();
    this.redraw();
  }

  /** A pattern that was selected stays so when new columns come. */
  keepSelection() {
    const { canvas } = this;
    const old = canvas.selected;
    if (!old) return;
    const heat = canvas.detail ?? canvas.base;
    canvas.selected = heat?.patterns.find((p) => p === old) ?? heat?.patterns.find((p) => p.kind === old.kind && p.keyspace === old.keyspace && p.key === old.key) ?? null;
  }

  /** @param {import("../lib/heat-data.js").Heat} base @param {Record<string, string>} params @returns {import("../lib/heat-canvas.js").Part} */
  partOf(base, params) {
    const { detailRows } = this.canvas;
    const t0 = params.from ? Date.parse(params.from) : base.from;
    const t1 = params.to ? Date.parse(params.to) : base.to;
    if (!(t1 > t0)) return { t0: base.from, t1: base.to, r0: 0, r1: base.rows.length };
    return { t0, t1, r0: params.start ? detailRows.first : 0, r1: params.end ? detailRows.last : base.rows.length };
  }

  /** Writes what is seen into the address. @param {boolean} isStep reports whether "back" comes back to what was seen before */
  commit(isStep) {
    const { base, part } = this.canvas;
    if (!base) return;
    const r0 = Math.max(0, Math.round(part.r0));
    const r1 = Math.min(base.rows.length, Math.max(r0 + 1, Math.round(part.r1)));
    const isAllTime = part.t0 <= base.from && part.t1 >= base.to;
    const iso = (t) => new Date(Math.round(t / 1000) * 1000).toISOString().replace(".000", "");
    const zoom = {
      from: isAllTime ? "" : iso(Math.max(part.t0, base.from)), to: isAllTime ? "" : iso(Math.min(part.t1, base.to)),
      start: r0 > 0 ? base.rows[r0].at : "", end: r1 < base.rows.length ? base.rows[r1].at : "",
    };
    if (isStep) this.ctx.navigate("heatmap", { ...this.params, ...zoom });
    else this.ctx.setParams(zoom);
  }

  reset() {
    const { base } = this.canvas;
    if (base) this.canvas.part = { t0: base.from, t1: base.to, r0: 0, r1: base.rows.length };
    this.unpin();
    this.ctx.navigate("heatmap", { ...this.params, from: "", to: "", start: "", end: "" });
    this.redraw();
  }

  get isZoomed() {
    return Boolean(this.params.from || this.params.start || this.params.end);
  }

  redraw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.canvas.draw();
      this.renderLabels();
      if (this.isPinned) this.renderTip();
    });
  }

  renderTop() {
    const { params } = this;
    const set = (name) => (/** @type {Event} */ e) => {
      this.unpin();
      const zoom = name === "metric" ? {} : { from: "", to: "", start: "", end: "" };
      this.ctx.setParams({ ...zoom, [name]: /** @type {HTMLSelectElement} */ (e.target).value });
    };
    const choice = (label, name, /** @type {[string, string][]} */ options, value) =>
      html`<label class="field inline"><span>${label}</span><select data-param=${name} @change=${set(name)}>
        ${options.map(([id, text]) => html`<option value=${id} ?selected=${id === value}>${text}</option>`)}</select></label>`;
    const keyspaces = (this.data.get(this.paths.keyspaces)?.items ?? []).filter((k) => !k.index);
    render(html`<div class="toolbar heat-bar">
      ${choice("Show", "metric", Object.entries(metrics), params.metric ?? "ops")}
      ${choice("Time", "range", Object.entries(ranges), params.range ?? defaultRange)}
      ${choice("Keyspace", "keyspace", [["", "All"], ...keyspaces.map((k) => [k.name, k.name])], params.keyspace ?? "")}
      <label class="field inline"><span>Brightness</span><input type="range" min="-100" max="100" step="10" .value=${params.bright ?? "0"} @input=${set("bright")}></label>
      <span class="grow"></span>
      <span class="heat-tools">
        <button aria-label="Zoom in" title="Zoom in (+)" @click=${() => this.input.zoom(0.5)}>+</button>
        <button aria-label="Zoom out" title="Zoom out (−)" @click=${() => this.input.zoom(2)}>−</button>
        <button ?disabled=${!this.isZoomed} @click=${() => this.reset()}>Reset zoom</button>
        <button ?disabled=${!this.canvas.base} @click=${() => this.save()}>Save picture</button>
      </span>
    </div>${this.pictureError ? errorState(/** @type {any} */ ({ message: this.pictureError })) : nothing}
    ${this.legend()}`, this.top);
  }

  legend() {
    const { canvas } = this;
    if (!canvas.base) return nothing;
    const { metric } = canvas.base;
    const kinds = [...new Set(canvas.events.map((e) => (e.kind in eventKinds ? e.kind : "other")))];
    return html`<div class="heat-legend">
      <span class="heat-scale" role="img" aria-label="Colours from dark, at most ${valueText(metric, canvas.legend()[0])}, to bright, ${valueText(metric, canvas.legend()[3])}, each third ten times as much">
        <span class="heat-ramp"></span>
        <span class="heat-values">${canvas.legend().map((v, i) => html`<span>${i === 0 ? "≤ " : ""}${valueText(metric, v)}</span>`)}</span>
      </span>
      <span class="muted small">${metrics[/** @type {keyof typeof metrics} */ (metric)]} of a row, by second; each third is ten times as much. A column is ${seconds((canvas.detail ?? canvas.base).step / 1000)}. <span class="heat-hatch"></span> not known</span>
      ${kinds.map((kind) => html`<span class="small heat-kind"><b ${setStyle({ background: eventKinds[/** @type {keyof typeof eventKinds} */ (kind)].color })}>${eventKinds[/** @type {keyof typeof eventKinds} */ (kind)].letter}</b> ${eventKinds[/** @type {keyof typeof eventKinds} */ (kind)].name}</span>`)}
      <span class="muted small heat-help">Drag to zoom, Shift-drag to pan, click for details, Escape resets</span>
    </div>`;
  }

  /** The labels of patterns, as buttons over the canvas. */
  renderLabels() {
    const { canvas } = this;
    const heat = canvas.detail ?? canvas.base;
    /** @type {{x: number, y: number}[]} */
    const used = [];
    const items = (heat?.patterns ?? []).flatMap((p) => {
      const box = canvas.boxOf(/** @type {any} */ (heat), p);
      const left = canvas.gutter;
      const right = canvas.gutter + canvas.plotWidth;
      if (box.x > right || box.x + box.width < left || box.y > 18 + canvas.plotHeight || box.y + box.height < 18) return [];
      // Beside what it names: above a line across, right of one down, and in the corner that a diagonal leaves.
      const besides = box.x + box.width + 6 < right - 150 ? box.x + box.width + 6 : box.x - 154;
      const corner = /smaller keys/.test(p.text) ? box.y + 4 : box.y + box.height - 28;
      let x = Math.min(Math.max(p.kind === "vertical" ? besides : box.x + 4, left), right - 150);
      let y = Math.min(Math.max(p.kind === "horizontal" ? box.y - 29 : p.kind === "diagonal" ? corner : box.y + 4, 20), canvas.plotHeight - 12);
      while (used.some((u) => Math.abs(u.x - x) < 150 && Math.abs(u.y - y) < 26)) y += 27;
      if (y > canvas.plotHeight) y = 20 + used.length * 4;
      x = Math.max(x, left);
      used.push({ x, y });
      return [{ p, x, y }];
    });
    render(items.map(({ p, x, y }) => html`<button class="heat-label" data-pattern=${p.kind} aria-pressed=${canvas.selected === p} title=${p.text}
      ${setStyle({ transform: `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)` })} @click=${() => this.select(p)}>
      <span aria-hidden="true">${patternShape(p)}</span> ${patternName(p)}${p.key === undefined ? nothing : html` <code>${p.key.length > 18 ? "…" + p.key.slice(-17) : p.key}</code>`} <b>${patternMeasure(p)}</b></button>`), this.labels);
  }

  /** @param {import("../lib/heat-data.js").Pattern} p */
  select(p) {
    this.canvas.selected = this.canvas.selected === p ? null : p;
    this.unpin();
    this.renderRest();
    this.redraw();
    if (this.canvas.selected) this.rest.querySelector(".heat-details")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  renderRest() {
    const { canvas, data, paths } = this;
    const answer = data.get(paths.base);
    const refused = [answer, data.get(paths.detail)].find((a) => a instanceof Error);
    this.stage.hidden = !canvas.base;
    const same = sameData({ curl: (paths.detail || paths.base).replace("&cells=levels", ""), cleave: this.command() });
    if (refused && !canvas.base) return render(html`${errorState(/** @type {any} */ (refused))}${same}`, this.rest);
    if (answer === undefined) return render(skeleton(10), this.rest);
    if (!canvas.base) {
      return render(html`<div class="panel">${emptyState("There is no heat yet", html`A column is ten seconds, so the first comes a moment after the first requests. Ask something of the server, or try <code>cleave demo flash-sale</code>.`)}</div>${same}`, this.rest);
    }
    const heat = canvas.detail ?? canvas.base;
    const { selected } = canvas;
    render(html`
      ${refused ? errorState(/** @type {any} */ (refused)) : nothing}
      ${selected ? patternDetails(selected, heat.metric, data.get(paths.plan), this.ctx, () => this.select(selected)) : nothing}
      ${heat.patterns.length ? panel("Seen in this map", this.patternList(heat)) : nothing}
      ${panel("Hottest rows in view", this.table(heat), { flush: true, aside: `${dateTime(new Date(canvas.part.t0))} to ${clock(new Date(canvas.part.t1))}` })}
      ${same}`, this.rest);
  }

  /** @param {import("../lib/heat-data.js").Heat} heat */
  patternList(heat) {
    return html`<ul class="heat-list">${heat.patterns.map((p) => html`<li><button aria-pressed=${this.canvas.selected === p} @click=${() => this.select(p)}>${patternShape(p)} ${patternName(p)}</button>
      <span>${p.text}</span> <span class="muted small nowrap">${clock(new Date(heat.from + p.first_column * heat.step))}–${clock(new Date(heat.from + (p.last_column + 1) * heat.step))}</span></li>`)}</ul>`;
  }

  /** @param {import("../lib/heat-data.js").Heat} heat */
  table(heat) {
    const { part } = this.canvas;
    const whole = { firstRow: 0, lastRow: heat.rows.length - 1, firstColumn: Math.max(0, Math.floor((part.t0 - heat.from) / heat.step)), lastColumn: Math.min(heat.columns - 1, Math.ceil((part.t1 - heat.from) / heat.step) - 1) };
    const key = JSON.stringify(whole);
    if (this.hottest.heat !== heat || this.hottest.key !== key) this.hottest = { heat, key, rows: hottestRows(heat, whole, tableRows) };
    const number = (id, title) => ({ id, title, align: /** @type {const} */ ("right"), value: (r) => r[id], cell: (r) => valueText(heat.metric, r[id]) });
    return dataTable({
      id: "rows", noun: "row", rows: this.hottest.rows, rowKey: (r) => r.at, ctx: this.ctx, sort: "-mean", filter: false,
      columns: [
        { id: "range", title: "Keys", value: (r) => r.range, cell: (r) => (r.key === undefined ? html`<span class="key">${r.range}</span>` : html`<a href=${link("explain", { keyspace: r.keyspace, key: r.key })}>${keyText(r.key, 60)}</a>`) },
        { id: "keyspace", title: "Keyspace", value: (r) => r.keyspace, cell: (r) => r.keyspace || "catalog" },
        number("mean", "Mean"), number("peak", "Peak"),
        ...(heat.metric === "p99" ? [] : [{ id: "share", title: "Share", align: /** @type {const} */ ("right"), value: (r) => r.share, cell: (r) => share(r.share) }]),
        { id: "shard", title: "Shard", align: "right", value: (r) => r.shard, cell: (r) => (r.shard ? shardLink(r.shard) : "–") },
        { id: "group", title: "Group", align: "right", value: (r) => r.group, cell: (r) => r.group || "–" },
      ],
    });
  }

  command() {
    const { metric, range, keyspace, from, to } = this.params;
    const quote = (text) => (/^[\w.:-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");
    return "cleave heatmap" + (metric && metric !== "ops" ? " --metric " + metric : "") + (keyspace ? " --keyspace " + quote(keyspace) : "") + ` --from ${from || range || defaultRange}` + (to ? " --to " + to : "");
  }

  /** Shows what is at the pointer or the cursor. @param {import("../lib/heat-canvas.js").Cell|null} cell @param {{x: number, y: number}} [at] @param {boolean} [byKeyboard] */
  point(cell, at, byKeyboard = false) {
    if (this.isPinned && !byKeyboard) return;
    if (byKeyboard) this.isPinned = false;
    this.canvas.cursor = cell;
    this.at = at ?? null;
    this.renderTip();
    if (cell && byKeyboard) this.said.textContent = `${rangeText(cell.heat, cell.row)}, ${valueText(cell.heat.metric, cellOf(cell.heat, cell.row, cell.column))}, ${clock(new Date(cell.heat.from + cell.column * cell.heat.step))}`;
    this.redraw();
  }

  pin() {
    if (!this.canvas.cursor) return;
    this.isPinned = true;
    this.renderTip();
  }

  unpin() {
    this.isPinned = false;
    this.point(null);
  }

  renderTip() {
    const { cursor } = this.canvas;
    this.tip.hidden = !cursor;
    if (!cursor) return;
    const { heat, row, column } = cursor;
    const about = heat.rows[row];
    const from = heat.from + column * heat.step;
    const value = cellOf(heat, row, column);
    const event = this.at && this.canvas.eventAt(this.at.x, this.at.y);
    this.tip.classList.toggle("pinned", this.isPinned);
    render(html`
      <p class="strong">${valueText(heat.metric, value)} <span class="muted">${metrics[/** @type {keyof typeof metrics} */ (heat.metric)].toLowerCase()}</span></p>
      <dl class="facts">
        <dt>${about.single ? "Key" : "Keys"}</dt><dd><code class="key">${rangeText(heat, row)}</code></dd>
        <dt>Keyspace</dt><dd>${about.keyspace || "catalog"}${about.slot === undefined ? nothing : `, slot ${about.slot}`}</dd>
        <dt>Time</dt><dd>${clock(new Date(from))}–${clock(new Date(from + heat.step))}</dd>
        <dt>Shard</dt><dd>${about.shard ? html`${shardLink(about.shard)} of group ${about.group}${about.shards > 1 ? ` and ${about.shards - 1} more` : ""}` : "–"}</dd>
        ${event ? html`<dt>${(eventKinds[/** @type {keyof typeof eventKinds} */ (event.kind)] ?? eventKinds.other).name}</dt><dd>${event.text}</dd>` : nothing}
      </dl>
      ${this.isPinned ? html`<p class="toolbar">
        ${about.shard ? html`<a href=${link("shards/" + about.shard)}>Explain this shard</a>` : nothing}
        ${about.start_key === undefined ? nothing : html`<a href=${link("explain", { keyspace: about.keyspace, key: about.start_key })}>Explain this key</a>`}
        <a href=${link("hotkeys", { shard: about.shard || undefined })}>Hot keys here</a>
        <button class="quiet" aria-label="Close" @click=${() => this.unpin()}>${icon("close")}</button></p>` : nothing}`, this.tip);
    this.placeTip(cursor);
  }

  /** Beside the cell, where there is room. @param {import("../lib/heat-canvas.js").Cell} cursor */
  placeTip({ heat, row, column }) {
    const { canvas, tip } = this;
    const box = canvas.boxOf(heat, { first_row: row, last_row: row, first_column: column, last_column: column });
    const x = this.at?.x ?? box.x + box.width;
    const y = this.at?.y ?? box.y;
    const left = x + 16 + tip.offsetWidth < canvas.width ? x + 16 : Math.max(4, x - tip.offsetWidth - 16);
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.min(Math.max(4, y + 8), Math.max(4, canvas.height - tip.offsetHeight - 4)))}px)`;
  }

  async save() {
    const { canvas, params } = this;
    const selected = canvas.cursor;
    canvas.cursor = null;
    canvas.draw();
    const metric = canvas.base?.metric ?? "ops";
    try {
      await savePicture(canvas, {
        metric, title: `${metrics[/** @type {keyof typeof metrics} */ (metric)]}${params.keyspace ? " of keyspace " + params.keyspace : ""}`,
        subtitle: `${dateTime(new Date(canvas.part.t0))} to ${dateTime(new Date(canvas.part.t1))} · ${location.host} · Cleave`,
      });
      this.pictureError = "";
    } catch (error) {
      this.pictureError = "The picture could not be saved: " + error;
    }
    canvas.cursor = selected;
    this.renderTop();
    this.redraw();
  }
}
