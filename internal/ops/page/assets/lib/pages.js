// Lists of more than one page: the live stream carries the first, the others are read every few seconds.

import { get } from "./api.js";

const refreshMs = 5000;

/** @typedef {{path: string, first: any, rest: any[], all: any[], loading: boolean, loadedAt: number}} LongList */

/** @param {string} path @returns {LongList} */
const newList = (path) => ({ path, first: null, rest: [], all: [], loading: false, loadedAt: 0 });

/** The list that was asked for last: there is one long list in a view. */
let list = newList("");

/**
 * Returns all items that are known of a list: the same array until one of its pages changes.
 * @param {string} path that of the first page @param {{items: any[], next?: string}} page the first one @param {{refresh: () => void}} ctx
 */
export function wholeList(path, page, ctx) {
  if (list.path !== path) list = newList(path);
  if (page !== list.first) {
    list.first = page;
    list.all = page.items.concat(page.next ? list.rest : []);
  }
  if (page.next && !list.loading && Date.now() - list.loadedAt > refreshMs) loadRest(list, page.next, ctx);
  return list.all;
}

/** @param {LongList} target @param {string} next @param {{refresh: () => void}} ctx */
async function loadRest(target, next, ctx) {
  target.loading = true;
  const isFirst = target.loadedAt === 0;
  /** @type {any[]} */
  const rest = [];
  try {
    for (let after = next; after; ) {
      const page = await get(target.path + (target.path.includes("?") ? "&" : "?") + "after=" + encodeURIComponent(after));
      rest.push(...page.items);
      after = page.next ?? "";
      if (isFirst) show(target, rest, ctx); // page by page at first
    }
    show(target, rest, ctx);
  } catch {
    // The live stream says that the server is gone. What was read stays until the next time.
  } finally {
    target.loading = false;
    target.loadedAt = Date.now();
  }
}

/** @param {LongList} target @param {any[]} rest @param {{refresh: () => void}} ctx */
function show(target, rest, ctx) {
  target.rest = rest;
  target.all = target.first.items.concat(rest);
  ctx.refresh();
}
