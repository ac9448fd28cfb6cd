// Small pieces of templates that all views use.

import { html, svg, nothing } from "../vendor/lit/lit-html.js";
import { directive, Directive } from "../vendor/lit/directive.js";
import { ago, clip, dateTime, sentence } from "./format.js";

export { html, svg, nothing };

// The content policy forbids style attributes, so styles are set through the object model.
class SetStyle extends Directive {
  /** @param {Record<string, string>} _properties */
  render(_properties) {
    return nothing;
  }

  /** @param {any} part @param {[Record<string, string>]} args */
  update(part, [properties]) {
    for (const [name, value] of Object.entries(properties)) part.element.style.setProperty(name, value);
    return nothing;
  }
}

/** `<i ${setStyle({"--part": "40%"})}></i>` */
export const setStyle = directive(SetStyle);

class OnElement extends Directive {
  /** @param {(el: HTMLElement) => void} _apply */
  render(_apply) {
    return nothing;
  }

  /** @param {any} part @param {[(el: HTMLElement) => void]} args */
  update(part, [apply]) {
    queueMicrotask(() => apply(part.element));
    return nothing;
  }
}

/** Hands the element over after each render: `<div ${onElement(draw)}></div>` */
export const onElement = directive(OnElement);

const keyChars = 160;

/**
 * A key, as the API has escaped it. A long one is cut; its title has all of it.
 * @param {string} text @param {number} [chars]
 */
export function keyText(text, chars = keyChars) {
  return html`<code class="key" dir="ltr" title=${text}>${text === "" ? html`<i class="muted">empty</i>` : clip(text, chars)}</code>`;
}

/** @param {string|Date|undefined} time @param {{now: () => number}} ctx */
export function timeAgo(time, ctx) {
  if (!time) return nothing;
  return html`<time title=${dateTime(time)}>${ago(time, ctx.now())}</time>`;
}

const iconPaths = {
  overview: "M2.5 2.5h4.5v6H2.5zM9 2.5h4.5v3.5H9zM9 8.5h4.5v5H9zM2.5 11h4.5v2.5H2.5z",
  heatmap: "M2.5 2.5h11v11h-11zM2.5 6.2h11M2.5 9.8h11M6.2 2.5v11M9.8 2.5v11",
  shards: "M2.5 3.5h11M2.5 8h4.5M9 8h4.5M2.5 12.5h2.5M7 12.5h2.5M11.5 12.5h2",
  hotkeys: "M8 14c-2.8 0-4.5-1.8-4.5-4.2C3.5 7 6 5.8 6.2 2c2 1 3 2.6 3 4.4.8-.3 1.2-1 1.3-1.8 1.3 1.3 2 3 2 5C12.5 12.2 10.8 14 8 14z",
  jobs: "M3 8a5 5 0 1 0 1.5-3.6M3 2.5v2.5h2.5M8 5.5V8l1.8 1.2",
  explain: "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9zM10.3 10.3l3.2 3.2",
  data: "M2.5 4c0-2 11-2 11 0s-11 2-11 0zM2.5 4v8c0 2 11 2 11 0V4M2.5 8c0 2 11 2 11 0",
  settings: "M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M10 3v3M6 10v3",
  events: "M5.5 3.5h8M5.5 8h8M5.5 12.5h8M2.5 3.5h.5M2.5 8h.5M2.5 12.5h.5",
  advisor: "M8 2.5a4 4 0 0 1 2.3 7.3c-.5.4-.8.8-.8 1.7h-3c0-.9-.3-1.3-.8-1.7A4 4 0 0 1 8 2.5zM6.5 13.5h3",
  ok: "M3 8.5l3.3 3.3L13 4.8",
  warn: "M8 2.5l6 11H2zM8 6.5v3.5M8 11.8v.2",
  bad: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4",
  info: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM8 7.3v3.5M8 5v.2",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  more: "M3.5 8h.5M8 8h.5M12.5 8h.5",
  auto: "M8 2.5a5.5 5.5 0 1 1 0 11zM8 2.5a5.5 5.5 0 1 0 0 11z",
  light: "M8 5.2a2.8 2.8 0 1 1 0 5.6a2.8 2.8 0 0 1 0-5.6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  next: "M6 3.5L10.5 8 6 12.5",
  close: "M4 4l8 8M12 4l-8 8",
};

/** A picture beside a word: readers of the screen hear the word alone. @param {string} name */
export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${iconPaths[name] ?? iconPaths.info} /></svg>`;
}

/** A bar from 0 to 1, with a mark if there is one. @param {number} part @param {{mark?: number, tone?: string, label: string}} options */
export function bar(part, { mark, tone = "", label }) {
  const percent = (x) => (100 * Math.min(1, Math.max(0, x))).toFixed(1) + "%";
  return html`<span class="bar ${tone}" role="img" aria-label=${label} title=${label}>
    <i ${setStyle({ width: percent(part) })}></i>
    ${mark === undefined ? nothing : html`<b ${setStyle({ left: percent(mark) })}></b>`}
  </span>`;
}

/** A word with a tone: ok, warn, bad, hot or none. @param {string} text @param {string} [tone] */
export function badge(text, tone = "") {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** A number with its name and a detail, in a list of figures. @param {string} name @param {unknown} value @param {unknown} [detail] @param {string} [help] */
export const figure = (name, value, detail = "", help = "") => html`<div title=${help || nothing}><dt>${name}</dt><dd>${value} <small>${detail}</small></dd></div>`;

/** What an empty place says: what there is to do. @param {unknown} title @param {unknown} [text] */
export function emptyState(title, text = nothing) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${text === nothing ? nothing : html`<p>${text}</p>`}</div>`;
}

/** Lines in the place of what is not there yet. @param {number} [lines] */
export function skeleton(lines = 4) {
  return html`<div class="skeleton" role="status" aria-label="Loading">${Array.from({ length: lines }, () => html`<i></i>`)}</div>`;
}

/** What the server refuses as things are is no mistake. @param {import("./api.js").ApiError} error */
export function errorState(error) {
  const tone = error.code === "refused" ? "info" : "bad";
  return html`<div class="notice ${tone}" role="alert">${icon(tone)}<div>
    <p class="strong">${sentence(error.message)}</p>${error.hint ? html`<p>${sentence(error.hint)}</p>` : nothing}
  </div></div>`;
}

/**
 * Renders what a path has answered: skeleton, error or content.
 * @param {any} body from the data of a view @param {(body: any) => unknown} render @param {number} [lines]
 */
export function whenLoaded(body, render, lines) {
  if (body === undefined) return skeleton(lines);
  if (body instanceof Error) return errorState(/** @type {any} */ (body));
  return render(body);
}

/** A part of a view with a heading. @param {unknown} title @param {unknown} content @param {{aside?: unknown, id?: string, flush?: boolean}} [options] */
export function panel(title, content, { aside = nothing, id = "", flush = false } = {}) {
  return html`<section class="panel ${flush ? "flush" : ""}" id=${id || nothing}>
    <header><h2>${title}</h2><div class="aside">${aside}</div></header>${content}
  </section>`;
}

/** Copies a text, and says so on the button. @param {string} text */
export function copyButton(text) {
  return html`<button class="quiet" title="Copy" aria-label="Copy: ${clip(text, 80)}" @click=${(/** @type {Event} */ e) => copy(text, e)}>${icon("copy")}<span class="copied" aria-live="polite"></span></button>`;
}

/** @param {string} text @param {Event} event */
async function copy(text, event) {
  const note = /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (event.currentTarget).querySelector(".copied"));
  note.textContent = (await copyText(text)) ? "copied" : "not copied";
  setTimeout(() => (note.textContent = ""), 1500);
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no permission, or the page came over plain HTTP from another machine
  }
}

/** A command with a button to copy all of it. @param {string} text */
export function commandLine(text) {
  return html`<span class="command"><code>${clip(text, 300)}</code>${copyButton(text)}</span>`;
}

/** The address of a view. @param {string} route @param {Record<string, unknown>} [params] */
export function link(route, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return "#/" + route + (text && "?" + text);
}

/** A number with its name, in a table. @param {number} id */
export const shardLink = (id) => html`<a href=${link("shards/" + id)}>shard ${id}</a>`;
