// The shell: navigation, the visible view and its live data.

import { render } from "./vendor/lit/lit-html.js";
import { openAction } from "./lib/action.js";
import { apiPath, signOut, takeTokenFromAddress, token } from "./lib/api.js";
import { openDialog } from "./lib/dialog.js";
import { errorState, html, icon, nothing, skeleton } from "./lib/dom.js";
import { clock } from "./lib/format.js";
import { watch } from "./lib/live.js";
import { formatRoute, parseRoute } from "./lib/router.js";
import { askForToken } from "./lib/signin.js";
import { applyTheme, setTheme, theme } from "./lib/theme.js";

/**
 * A view. Either render returns a template of the data, or mount, update and unmount draw by themselves.
 * @typedef {{title: string | ((params: any) => string),
 *   watch: (params: Record<string, string>, data: Map<string, any>) => string[],
 *   every?: number,
 *   render?: (data: Map<string, any>, params: Record<string, string>, ctx: Context) => unknown,
 *   mount?: (el: HTMLElement, ctx: Context) => void,
 *   update?: (data: Map<string, any>, params: Record<string, string>) => void,
 *   unmount?: () => void}} View
 *   params: those of the address, and id if it names one thing; every: seconds between two looks at the server;
 *   data: path to the last answer, or an ApiError
 */

/**
 * What views use of the shell.
 * @typedef {{params: Record<string, string>, data: Map<string, any>,
 *   navigate: (route: string, params?: Record<string, string>) => void,
 *   setParams: (changes: Record<string, string|undefined>) => void,
 *   openAction: (name: string, preset?: Record<string, unknown>) => void,
 *   now: () => number, refresh: () => void}} Context
 *   setParams: changes the address without a step in the history; refresh: renders again soon
 */

const statusPath = apiPath("/status");

const nav = [
  { route: "overview", title: "Overview", key: "o" },
  { route: "heatmap", title: "Heat map", key: "h" },
  { route: "shards", title: "Shards", key: "s" },
  { route: "hotkeys", title: "Hot keys", key: "k" },
  { route: "jobs", title: "Jobs", key: "j" },
  { route: "explain", title: "Explain", key: "e" },
  { route: "data", title: "Data", key: "d" },
  { route: "settings", title: "Settings", key: "t" },
  { route: "events", title: "Events", key: "v" },
  { route: "advisor", title: "Advisor", key: "a" },
];
const narrowNav = nav.slice(0, 4);

/** Modules of views, and of those that show one thing. @type {Record<string, string>} */
const modules = { "shards/": "shard", "jobs/": "job" };

const state = {
  route: parseRoute(location.hash),
  /** @type {View|null} */
  view: null,
  viewName: "",
  /** @type {HTMLElement|null} */
  mounted: null,
  /** @type {any} */
  failure: null,
  /** @type {{live: boolean, staleSince: Date|null, error: any}} */
  connection: { live: false, staleSince: null, error: null },
  /** @type {Map<string, any>} */
  data: new Map(),
  /** @type {string[]} */
  paths: [],
  closeStream: () => {},
  menuOpen: false,
  verdict: "",
  pendingShortcut: "",
  frame: 0,
};

/** @type {Context} */
const ctx = {
  get params() {
    return viewParams();
  },
  get data() {
    return state.data;
  },
  navigate(route, params = {}) {
    const [name, id = ""] = route.split("/");
    location.hash = formatRoute({ name, id, params });
  },
  setParams(changes) {
    const params = { ...state.route.params };
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined || value === "") delete params[name];
      else params[name] = value;
    }
    history.replaceState(null, "", formatRoute({ ...state.route, params }));
    followAddress();
  },
  openAction: (name, preset = {}) => openAction(name, preset, ctx),
  now: () => Date.now(),
  refresh,
};

function viewParams() {
  return state.route.id ? { ...state.route.params, id: state.route.id } : state.route.params;
}

/** Loads the view of the address if it is another one, and watches what it shows. */
async function followAddress() {
  const route = parseRoute(location.hash);
  state.route = route;
  state.menuOpen = false;
  const name = modules[route.name + (route.id && "/")] ?? route.name;
  const key = name + "/" + route.id;
  if (key !== state.viewName) {
    unmountView();
    state.viewName = key;
    state.view = null;
    state.failure = null;
    refresh();
    const view = await loadView(name);
    if (state.viewName !== key) return; // the address has changed meanwhile
    state.view = view;
    document.getElementById("main")?.scrollTo(0, 0);
    scrollTo(0, 0);
  }
  watchView();
  refresh();
}

/** @param {string} name @returns {Promise<View|null>} */
async function loadView(name) {
  if (!nav.some((n) => n.route === name) && !Object.values(modules).includes(name)) {
    state.failure = { message: `There is no view “${name}”`, hint: "Choose one of the navigation." };
    return null;
  }
  try {
    return (await import(`./views/${name}.js`)).default;
  } catch (error) {
    state.failure = { message: "The view could not be loaded", hint: String(error) };
    return null;
  }
}

function watchView() {
  const wanted = state.view ? state.view.watch(viewParams(), state.data) : [];
  const paths = [...new Set([statusPath, ...wanted])];
  if (paths.join("\n") === state.paths.join("\n")) return;
  state.closeStream();
  state.paths = paths;
  for (const path of state.data.keys()) {
    if (!paths.includes(path)) state.data.delete(path);
  }
  state.closeStream = watch(paths, {
    onData: (path, body) => setData(path, body),
    onError: (path, error) => setData(path, error),
    onState: (connection) => {
      state.connection = connection;
      refresh();
    },
  }, { every: state.view?.every });
}

/** Watches anew, with the token that there is now. */
function reconnect() {
  state.paths = [];
  watchView();
  refresh();
}

/** @param {string} path @param {any} body */
function setData(path, body) {
  state.data.set(path, body);
  watchView(); // what is watched may follow from what was seen
  refresh();
}

function unmountView() {
  try {
    if (state.mounted) state.view?.unmount?.();
  } finally {
    state.mounted = null;
  }
}

/** Renders once before the next frame, however often it is asked for. */
function refresh() {
  state.frame ||= requestAnimationFrame(() => {
    state.frame = 0;
    renderPage();
  });
}

function renderPage() {
  const title = viewTitle();
  document.title = title + " · Cleave";
  render(shell(title), /** @type {HTMLElement} */ (document.getElementById("app")));
  renderView(/** @type {HTMLElement} */ (document.getElementById("view")));
}

/** Each view has an element of its own, so that none finds what another has drawn. @param {HTMLElement} place */
function renderView(place) {
  let el = /** @type {HTMLElement|null} */ (place.firstElementChild);
  if (el?.dataset.address !== state.viewName) {
    el = document.createElement("div");
    el.dataset.address = state.viewName;
    el.className = "view";
    place.replaceChildren(el);
  }
  const { view, failure } = state;
  if (failure) return render(errorState(failure), el);
  if (!view) return render(skeleton(6), el);
  if (needsToken()) return render(signInNotice(), el);
  try {
    drawView(view, el);
    // For tests: the view shows all that it watches.
    if (state.paths.every((path) => state.data.has(path))) el.dataset.view = state.viewName.split("/")[0];
  } catch (error) {
    unmountView();
    state.failure = { message: "This view has failed", hint: `${error}. Reload the page; the other views work.` };
    console.error(error);
    refresh();
  }
}

/** @param {View} view @param {HTMLElement} el */
function drawView(view, el) {
  if (!view.mount) {
    render(view.render?.(state.data, viewParams(), ctx), el);
    return;
  }
  if (state.mounted !== el) {
    render(nothing, el);
    view.mount(el, ctx);
    state.mounted = el;
  }
  view.update?.(state.data, viewParams());
}

function viewTitle() {
  const title = state.view?.title ?? nav.find((n) => n.route === state.route.name)?.title ?? "Cleave";
  return typeof title === "function" ? title(viewParams()) : title;
}

function needsToken() {
  return !state.connection.live && state.connection.error?.status === 401;
}

function signInNotice() {
  return html`<div class="panel"><div class="empty">
    <p class="empty-title">This server shows its data to those who have a token</p>
    <p><button class="primary" @click=${signInAnew}>Sign in</button></p>
  </div></div>`;
}

/** @param {string} title */
function shell(title) {
  return html`
    <a class="skip" href="#main" @click=${skipToMain}>Skip to the content</a>
    <nav class="rail" aria-label="Views">
      <a class="brand" href="#/overview"><img src=${new URL("icon.svg", import.meta.url).pathname} alt="" width="22" height="22">Cleave</a>
      <ul>${nav.map(navItem)}</ul>
    </nav>
    <div class="page">
      <header class="top">
        <h1>${title}</h1>
        ${verdictChip()}
        <span class="visually-hidden" aria-live="polite">${state.verdict ? "The server is " + state.verdict : ""}</span>
        <span class="grow"></span>
        ${connectionChip()}
        ${themeButton()}
        <button class="quiet" @click=${changeSignIn}>${token() ? "Sign out" : "Sign in"}</button>
        <button class="quiet wide-only" aria-label="Keyboard shortcuts" title="Keyboard shortcuts" @click=${showShortcuts}>?</button>
      </header>
      <main id="main" tabindex="-1">${streamNotice()}<div id="view"></div></main>
    </div>
    <nav class="bottom" aria-label="Views">
      <ul>${narrowNav.map(navItem)}<li><button aria-expanded=${state.menuOpen} @click=${toggleMenu}>${icon("more")}<span>More</span></button></li></ul>
      ${state.menuOpen ? html`<ul class="menu">${nav.slice(narrowNav.length).map(navItem)}</ul>` : nothing}
    </nav>`;
}

/** @param {{route: string, title: string}} item */
function navItem({ route, title }) {
  return html`<li><a href="#/${route}" aria-current=${state.route.name === route ? "page" : nothing}>${icon(route)}<span>${title}</span></a></li>`;
}

function verdictChip() {
  const status = state.data.get(statusPath);
  if (!status?.verdict) return nothing;
  state.verdict = status.verdict;
  const tone = { healthy: "ok", degraded: "warn", unhealthy: "bad" }[/** @type {string} */ (status.verdict)] ?? "warn";
  if (state.connection.staleSince) return html`<a class="chip plain" href="#/overview"><span>was ${status.verdict}</span></a>`;
  return html`<a class="chip ${tone}" href="#/overview">${icon(tone)}<span>${status.verdict}</span></a>`;
}

function connectionChip() {
  const { live, staleSince, error } = state.connection;
  if (live) return html`<span class="chip plain" data-state="live" title="Figures follow the server"><i class="dot"></i><span class="wide-only">live</span></span>`;
  if (!staleSince) return html`<span class="chip plain" data-state="connecting"><span>connecting</span></span>`;
  return html`<span class="chip warn" data-state=${needsToken() ? "signed-out" : "stale"} role="status" title=${error?.message ?? "the connection to the server is gone"}>${icon("warn")}<span>stale since ${clock(staleSince)}, trying again</span></span>`;
}

/** Why the server sends nothing, if it says so. */
function streamNotice() {
  const { live, error } = state.connection;
  return live || !error || needsToken() ? nothing : html`<div class="stream-notice">${errorState(error)}</div>`;
}

const nextTheme = /** @type {const} */ ({ auto: "light", light: "dark", dark: "auto" });

function themeButton() {
  const now = theme();
  const change = () => {
    setTheme(nextTheme[now]);
    refresh();
  };
  return html`<button class="quiet" aria-label="Colours: ${now}" title="Colours: ${now}. Press for ${nextTheme[now]}" @click=${change}>${icon(now)}</button>`;
}

async function changeSignIn() {
  if (!token()) return signInAnew();
  signOut();
  reconnect();
}

async function signInAnew() {
  await askForToken({ reason: token() ? "The token of this tab is not that of this server." : undefined });
  reconnect();
}

function toggleMenu() {
  state.menuOpen = !state.menuOpen;
  refresh();
}

/** @param {Event} event */
function skipToMain(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.key === "Escape" && state.menuOpen) toggleMenu();
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target.closest("input, textarea, select")) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // a filter keeps its text
    target.blur();
    return;
  }
  const isSecond = state.pendingShortcut === "g";
  state.pendingShortcut = "";
  const goal = isSecond && nav.find((n) => n.key === event.key);
  if (goal) ctx.navigate(goal.route);
  else if (event.key === "g") state.pendingShortcut = "g";
  else if (event.key === "?") showShortcuts();
  else if (event.key === "/") focusFilter(event);
  else if (event.key === "ArrowDown" && (target === document.body || target.id === "main")) focusTable(event);
}

/** A table that is the view, not one of its parts. @param {Event} event */
function focusTable(event) {
  const row = /** @type {HTMLElement|null} */ (document.querySelector("#view .table-bar + .table-box tbody tr[tabindex='0']"));
  if (!row) return;
  event.preventDefault();
  row.focus();
}

/** @param {Event} event */
function focusFilter(event) {
  const filter = /** @type {HTMLInputElement|null} */ (document.querySelector("#view .filter, #view input"));
  if (!filter) return;
  event.preventDefault();
  filter.focus();
  filter.select();
}

function showShortcuts() {
  const { dialog, close } = openDialog({ label: "Keyboard shortcuts" });
  const line = (keys, what) => html`<div><dt>${keys.map((k) => html`<kbd>${k}</kbd> `)}</dt><dd>${what}</dd></div>`;
  render(html`<div class="form">
    <header><h2>Keyboard shortcuts</h2></header>
    <dl class="keys">
      ${nav.map((n) => line(["g", n.key], n.title))}
      ${line(["/"], "Filter")}${line(["↑", "↓"], "Rows of a table")}${line(["Enter"], "Open a row")}${line(["?"], "This list")}
    </dl>
    <footer><button class="primary" autofocus @click=${close}>Close</button></footer>
  </div>`, dialog);
  dialog.showModal();
}

applyTheme();
takeTokenFromAddress();
document.getElementById("app")?.replaceChildren();
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) takeTokenFromAddress();
  followAddress();
});
addEventListener("keydown", onKey);
// Relative times move on without data.
setInterval(() => document.hidden || refresh(), 1000);
followAddress();
