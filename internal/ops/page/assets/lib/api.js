// The HTTP API: requests, errors, and the token that changes need.

const prefix = "/api/v1";
const tokenName = "cleave-token";
const timeoutMs = 30_000;

/** An error that the server, or the way to it, has answered with. */
export class ApiError extends Error {
  /** @param {{code: string, message: string, hint?: string}} error @param {number} status 0 if no answer came */
  constructor(error, status) {
    super(error.message);
    this.code = error.code;
    this.hint = error.hint ?? "";
    this.status = status;
  }
}

/** The token of this tab, "" without one. */
export function token() {
  return sessionStorage.getItem(tokenName) ?? "";
}

/** Keeps a token for this tab alone. @param {string} text */
export function signIn(text) {
  sessionStorage.setItem(tokenName, text.trim());
}

export function signOut() {
  sessionStorage.removeItem(tokenName);
}

/** Takes a token out of the address (#token=…), so that it is neither shown nor shared. */
export function takeTokenFromAddress() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  try {
    signIn(decodeURIComponent(found[1]));
  } catch {} // it is no token
  history.replaceState(null, "", location.pathname + location.search + "#/overview");
}

/** Headers of each request. @returns {Record<string, string>} */
export function headers() {
  return token() ? { Authorization: "Bearer " + token() } : {};
}

/**
 * The path of a request below /api/v1, with those parameters that have a value.
 * @param {string} path @param {Record<string, unknown>} [params]
 */
export function apiPath(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return prefix + path + (text && "?" + text);
}

/** @param {string} path from apiPath @param {RequestInit} [options] */
async function send(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...headers(), ...options.headers }, signal: AbortSignal.timeout(timeoutMs) });
  } catch (error) {
    if (/** @type {Error} */ (error).name === "TimeoutError") {
      throw new ApiError({ code: "timeout", message: "no answer in 30 s", hint: "What was asked for may be done: look before you repeat it." }, 0);
    }
    throw new ApiError({ code: "unreachable", message: "the server does not answer", hint: "Is it running?" }, 0);
  }
  return readAnswer(response);
}

/** @param {Response} response */
export async function readAnswer(response) {
  const text = await response.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    throw new ApiError({ code: "broken", message: `the answer is no JSON (HTTP ${response.status})` }, response.status);
  }
  if (!response.ok) throw toError(body, response.status);
  return body;
}

/** @param {any} body @param {number} status */
export function toError(body, status) {
  return new ApiError(body?.error ?? { code: "broken", message: `HTTP ${status}` }, status);
}

/** @param {string} path from apiPath */
export const get = (path) => send(path);

/**
 * Changes something, or plans it with dryRun.
 * @param {string} path from apiPath @param {unknown} body @param {{dryRun?: boolean}} [options]
 */
export function post(path, body, { dryRun = false } = {}) {
  return send(withDryRun(path, dryRun), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** @param {string} path from apiPath @param {{dryRun?: boolean}} [options] */
export function del(path, { dryRun = false } = {}) {
  return send(withDryRun(path, dryRun), { method: "DELETE" });
}

/** @param {string} path @param {boolean} dryRun */
function withDryRun(path, dryRun) {
  return dryRun ? path + (path.includes("?") ? "&" : "?") + "dry_run=true" : path;
}
