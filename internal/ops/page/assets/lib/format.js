// Numbers and times as text. Each has its unit.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Three digits that count, with the suffix of a thousand's power. @param {number} n @param {string[]} suffixes @param {number} base */
function scaled(n, suffixes, base) {
  let i = 0;
  while (Math.abs(n) >= base * 0.9995 && i < suffixes.length - 1) {
    n /= base;
    i++;
  }
  const digits = i === 0 || Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 10 ? 1 : 2;
  return n.toFixed(digits) + " " + suffixes[i];
}

/** 12,345, then 1.23 M. @param {number} n */
export function count(n) {
  if (Math.abs(n) < 100_000) return grouped.format(n);
  return scaled(n / 1000, ["k", "M", "G", "T"], 1000);
}

/** A number a second: 982/s, 12.3 k/s. @param {number} n */
export function rate(n) {
  if (n > 0 && n < 0.05) return "<0.1/s";
  if (n > 0 && n < 9.95) return n.toFixed(1) + "/s";
  if (n < 9_999.5) return grouped.format(n) + "/s";
  return scaled(n / 1000, ["k", "M", "G"], 1000) + "/s";
}

/** A rate on an axis, in as few digits as it takes: 5 k/s. @param {number} n */
export function rateTick(n) {
  for (const [size, suffix] of /** @type {const} */ ([[1e9, " G"], [1e6, " M"], [1e3, " k"]])) {
    if (n >= size) return +(n / size).toPrecision(3) + suffix + "/s";
  }
  return n + "/s";
}

/** 96.0 MiB. @param {number} n */
export function bytes(n) {
  return scaled(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
}

/** @param {number} n */
export const byteRate = (n) => bytes(n) + "/s";

/** A duration: 4.2 ms, 3.1 s, 2 min 5 s, 3 d 4 h. @param {number} s */
export function seconds(s) {
  if (s === 0) return "0 s";
  if (s < 1e-3) return short(s * 1e6) + " µs";
  if (s < 0.9995) return short(s * 1e3) + " ms";
  if (s < 99.5) return short(s) + " s";
  for (const [unit, size, smaller, smallerSize] of /** @type {const} */ ([["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]])) {
    if (s < size) continue;
    const rest = Math.floor((s % size) / smallerSize);
    return Math.floor(s / size) + " " + unit + (rest ? ` ${rest} ${smaller}` : "");
  }
  return short(s) + " s";
}

/** Two digits that count. @param {number} n */
function short(n) {
  return n >= 9.95 ? n.toFixed(0) : n.toFixed(1);
}

/** A part of a whole: 55 %, 0.4 %. @param {number} x */
export function share(x) {
  const percent = 100 * x;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  return (percent > 0 && percent < 9.95 ? percent.toFixed(1) : percent.toFixed(0)) + " %";
}

/** How much more than something else: 2.5×. @param {number} x */
export const times = (x) => (x >= 9.95 ? x.toFixed(0) : x.toFixed(1)) + "×";

/** @param {string|Date} t */
export function clock(t) {
  return new Date(t).toLocaleTimeString("en-GB");
}

/** Date and time of day, for titles. @param {string|Date} t */
export function dateTime(t) {
  const d = new Date(t);
  return d.toLocaleDateString("en-CA") + " " + d.toLocaleTimeString("en-GB");
}

/** How long ago: 5 s ago, 3 min ago. @param {string|Date} t @param {number} now in ms */
export function ago(t, now) {
  const s = Math.round((now - new Date(t).getTime()) / 1000);
  if (s < 2) return "now";
  return atMost(s) + " ago";
}

/** How long until: in 5 s. @param {string|Date} t @param {number} now in ms */
export function until(t, now) {
  const s = Math.round((new Date(t).getTime() - now) / 1000);
  return s <= 0 ? "now" : "in " + atMost(s);
}

/** A duration in its largest unit. @param {number} s */
function atMost(s) {
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}

/** @param {string} noun */
export const pluralOf = (noun) => noun.replace(/x$/, "xe").replace(/([^aeiou])y$/, "$1ie") + "s";

/** "1 shard", "2 shards", "3 entries". @param {number} n @param {string} noun */
export const plural = (n, noun) => `${count(n)} ${n === 1 ? noun : pluralOf(noun)}`;

/** "dev 5353ae4" for a build of no release. @param {string} version */
export const shortVersion = (version) => version.replace("(devel)", "").replace(/^v.*[-.]\d{14}-(\w{7})\w*.*$/, "dev $1");

/** A message of the API as a sentence. @param {string} text */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

/** The begin of a text. @param {string} text @param {number} chars */
export function clip(text, chars) {
  return text.length <= chars ? text : text.slice(0, chars - 1) + "…";
}

/**
 * A rate with what it may be off by: "4,117/s ± 8 %". The API's count is too high by at most its
 * error, and has the standard deviation of its sample.
 * @param {{count: number, error: number, deviation: number}} key @returns {number} the part that it may be off by
 */
export function uncertainty(key) {
  return key.count > 0 ? (key.error + 2 * key.deviation) / key.count : 0;
}

/** How a class, state or outcome of the API is shown. @param {string} text */
export const words = (text) => text.replaceAll("_", " ").replaceAll("-", " ");
