// Tables: sorted by their headers, filtered by a box, and with only the rows in sight when they are many.

import { repeat } from "../vendor/lit/directives/repeat.js";
import { live } from "../vendor/lit/directives/live.js";
import { emptyState, html, nothing, onElement, setStyle } from "./dom.js";
import { count, plural, pluralOf } from "./format.js";

const rowHeight = 36; // --row in app.css
const virtualFrom = 200;
const extraRows = 8; // above and below those in sight

/**
 * @template R
 * @typedef {{id: string, title: string, value: (row: R) => number|string|undefined, cell: (row: R) => unknown,
 *   align?: "right", width?: string, help?: string, isGiven?: boolean}} Column
 *   isGiven: the rows come in the order of this column;
 *   width: a CSS length, for tables of many rows, whose columns do not follow their content
 */

/**
 * @template R
 * @typedef {{id?: string, noun: string, columns: Column<R>[], rows: R[], rowKey: (row: R) => unknown, ctx: any,
 *   empty?: unknown, sort?: string, open?: (row: R) => string, filter?: boolean}} Table
 *   id: the prefix of the parameters of a table that is not the only one of its view; noun: what a row is;
 *   sort: the column that it is sorted by at first, with "-" for the largest first; open: the address of a row;
 *   rows: the same array as long as they are the same, so that they are sorted once
 */

/** Where each table was scrolled to, and its active row, which gets the focus after the next rendering. @type {Map<string, {top: number, height: number, active: number, focus: boolean, box: HTMLElement|null}>} */
const places = new Map();
/** @type {WeakMap<object, {key: string, rows: any[]}>} */
const arranged = new WeakMap();

/** @template R @param {Table<R>} table */
export function dataTable(table) {
  const { columns, rows, ctx, noun, filter = true } = table;
  const prefix = table.id ? table.id + "." : "";
  const sort = ctx.params[prefix + "sort"] ?? table.sort ?? "";
  const query = ctx.params[prefix + "q"] ?? "";
  const shown = arrange(rows, columns, sort, query);
  const place = placeOf(location.hash.split("?")[0] + prefix);
  const isVirtual = shown.length > virtualFrom;

  const setSort = (id) => {
    const next = sort === "-" + id ? id : sort === id ? "" : "-" + id;
    ctx.setParams({ [prefix + "sort"]: next === (table.sort ?? "") ? undefined : next });
  };
  const setQuery = (/** @type {Event} */ e) => {
    place.active = 0;
    ctx.setParams({ [prefix + "q"]: /** @type {HTMLInputElement} */ (e.target).value || undefined });
  };

  const box = filter && html`<div class="table-bar">
    <input type="search" class="filter" placeholder="Filter" aria-label="Filter ${pluralOf(noun)}" title="Any text, or ${columns[0].id}:text, ${numericColumn(columns)}>100"
      autocomplete="off" spellcheck="false" .value=${live(query)} @input=${setQuery}>
    <span class="muted" role="status">${shown.length === rows.length ? "" : count(shown.length) + " of "}${plural(rows.length, noun)}</span>
  </div>`;
  if (rows.length === 0 && !query) return table.empty ?? emptyState(`No ${pluralOf(noun)}`);
  return html`${box || nothing}
    <div class="table-box ${isVirtual ? "virtual" : ""}" @scroll=${isVirtual ? onScroll(place, ctx) : nothing} ${onElement(restoreScroll(place, isVirtual))}>
      <table class=${isVirtual ? "fixed" : ""} aria-rowcount=${shown.length + 1} aria-label=${pluralOf(noun)}>
        <thead><tr aria-rowindex="1">${columns.map((c) => headCell(c, sort, setSort, isVirtual))}</tr></thead>
        <tbody @keydown=${onKey(table, shown, place, isVirtual)}>${bodyRows(table, shown, place, isVirtual)}</tbody>
      </table>
      ${shown.length === 0 ? emptyState(`No ${noun} matches the filter`) : nothing}
    </div>`;
}

/** @template R @param {Column<R>} column @param {string} sort @param {(id: string) => void} setSort @param {boolean} isVirtual */
function headCell(column, sort, setSort, isVirtual) {
  if (column.title === "") return html`<td class="head"><span class="visually-hidden">Actions</span></td>`;
  const direction = sort === column.id ? "ascending" : sort === "-" + column.id ? "descending" : "none";
  return html`<th scope="col" class=${column.align ?? ""} aria-sort=${direction} ${setStyle(isVirtual && column.width ? { width: column.width } : {})}>
    <button class="sort" title=${column.help ?? nothing} @click=${() => setSort(column.id)}>${column.title}<i aria-hidden="true">${{ ascending: "↑", descending: "↓", none: "" }[direction]}</i></button>
  </th>`;
}

/** @template R @param {Table<R>} table @param {R[]} shown @param {any} place @param {boolean} isVirtual */
function bodyRows(table, shown, place, isVirtual) {
  const active = Math.min(place.active, shown.length - 1);
  const row = (r, i) => bodyRow(table, r, i, i === active);
  if (!isVirtual) return repeat(shown, table.rowKey, row);
  const first = Math.max(0, Math.min(Math.floor(place.top / rowHeight), shown.length - 1) - extraRows);
  const last = Math.min(shown.length, Math.ceil((place.top + place.height) / rowHeight) + extraRows);
  return html`
    <tr class="spacer" aria-hidden="true" ${setStyle({ height: first * rowHeight + "px" })}></tr>
    ${shown.slice(first, last).map((r, i) => row(r, first + i))}
    <tr class="spacer" aria-hidden="true" ${setStyle({ height: (shown.length - last) * rowHeight + "px" })}></tr>`;
}

/** @template R @param {Table<R>} table @param {R} r @param {number} index @param {boolean} isActive */
function bodyRow(table, r, index, isActive) {
  const open = table.open;
  const onClick = (/** @type {MouseEvent} */ e) => {
    const isControl = /** @type {HTMLElement} */ (e.target).closest("a, button, input");
    if (open && !isControl && !String(getSelection())) location.hash = open(r);
  };
  return html`<tr data-index=${index} data-row-key=${String(table.rowKey(r))} aria-rowindex=${index + 2} tabindex=${isActive ? 0 : -1} class=${open ? "opens" : ""} @click=${onClick}>
    ${table.columns.map((c) => html`<td class=${c.align ?? ""}>${c.cell(r)}</td>`)}
  </tr>`;
}

/** @param {string} id */
function placeOf(id) {
  let place = places.get(id);
  if (!place) {
    place = { top: 0, height: 800, active: 0, focus: false, box: null };
    places.set(id, place);
  }
  return place;
}

function onScroll(place, ctx) {
  return (/** @type {Event} */ e) => {
    const box = /** @type {HTMLElement} */ (e.currentTarget);
    place.top = box.scrollTop;
    place.height = box.clientHeight;
    ctx.refresh();
  };
}

/** @param {any} place @param {boolean} isVirtual */
function restoreScroll(place, isVirtual) {
  return (/** @type {HTMLElement} */ box) => {
    if (isVirtual && place.box !== box) box.scrollTop = place.top; // the view was left and is back
    place.box = box;
    if (!place.focus) return;
    if (isVirtual) box.scrollTop = place.top;
    place.focus = false;
    /** @type {HTMLElement|null} */ (box.querySelector(`tr[data-index="${place.active}"]`))?.focus({ preventScroll: isVirtual });
  };
}

/** @template R @param {Table<R>} table @param {R[]} shown @param {any} place @param {boolean} isVirtual */
function onKey(table, shown, place, isVirtual) {
  return (/** @type {KeyboardEvent} */ e) => {
    const row = /** @type {HTMLElement} */ (e.target);
    if (row.tagName !== "TR") return;
    const at = Number(row.dataset.index);
    if (e.key === "Enter" && table.open) {
      location.hash = table.open(shown[at]);
      return;
    }
    const page = Math.max(1, Math.floor(place.height / rowHeight) - 2);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 };
    if (!(e.key in steps)) return;
    e.preventDefault();
    place.active = Math.max(0, Math.min(shown.length - 1, steps[/** @type {keyof typeof steps} */ (e.key)]));
    place.focus = true;
    if (isVirtual) {
      const top = place.active * rowHeight;
      if (top < place.top) place.top = top;
      else if (top + 2 * rowHeight > place.top + place.height) place.top = top + 2 * rowHeight - place.height;
    }
    table.ctx.refresh();
  };
}

/** Rows that match, in their order. @template R @param {R[]} rows @param {Column<R>[]} columns @param {string} sort @param {string} query @returns {R[]} */
function arrange(rows, columns, sort, query) {
  const key = sort + "\n" + query;
  const known = arranged.get(rows);
  if (known?.key === key) return known.rows;
  const matches = parseFilter(query, columns);
  const shown = rows.filter((r) => matches.every((m) => m(r)));
  const column = columns.find((c) => c.id === sort.replace(/^-/, ""));
  const isDescending = sort.startsWith("-");
  if (column && !column.isGiven) sortRows(shown, column, isDescending ? -1 : 1);
  else if (column && isDescending) shown.reverse();
  arranged.set(rows, { key, rows: shown });
  return shown;
}

const collator = new Intl.Collator("en", { numeric: true });

/** Sorts in place; rows without a value come last. @template R @param {R[]} rows @param {Column<R>} column @param {1|-1} direction */
function sortRows(rows, column, direction) {
  const values = new Map(rows.map((r) => [r, column.value(r)]));
  rows.sort((ra, rb) => {
    const a = values.get(ra);
    const b = values.get(rb);
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
    return direction * (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b)));
  });
}

/** Words of a filter, all of which must match: text, column:text, column>number. @template R @param {string} query @param {Column<R>[]} columns */
export function parseFilter(query, columns) {
  return query.split(/\s+/).filter(Boolean).map((word) => {
    const parts = /^([\w]+)([:=<>])(.+)$/.exec(word);
    const column = parts && columns.find((c) => c.id === parts[1]);
    if (!column) return (r) => columns.some((c) => hasText(c.value(r), word));
    const [, , operator, text] = parts;
    const limit = parseNumber(text);
    if (operator === ">") return (r) => Number(column.value(r)) > limit;
    if (operator === "<") return (r) => Number(column.value(r)) < limit;
    if (operator === "=") return (r) => String(column.value(r) ?? "").toLowerCase() === text.toLowerCase();
    return (r) => hasText(column.value(r), text);
  });
}

/** @param {unknown} value @param {string} text */
function hasText(value, text) {
  return value !== undefined && String(value).toLowerCase().includes(text.toLowerCase());
}

/** 100, 1.5k, 2M. @param {string} text */
function parseNumber(text) {
  const power = "kmgt".indexOf(text.at(-1)?.toLowerCase() ?? "") + 1;
  return parseFloat(text) * 1000 ** power;
}

/** @template R @param {Column<R>[]} columns */
const numericColumn = (columns) => (columns.find((c) => c.align === "right") ?? columns[0]).id;
