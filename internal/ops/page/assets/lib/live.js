// The live stream: one connection carries all paths that a view shows.

import { ApiError, headers, readAnswer, toError } from "./api.js";

const firstDelayMs = 500;
const maxDelayMs = 15_000;
// The server sends a ping after 5 s without data: after three of them the connection counts as dead.
const silenceMs = 16_000;

/**
 * Watches paths until the returned function is called. Nothing is watched while the tab is hidden.
 * @param {string[]} paths from apiPath
 * @param {{onData: (path: string, body: any) => void,
 *   onError: (path: string, error: ApiError) => void,
 *   onState: (state: {live: boolean, staleSince: Date|null, error: ApiError|null}) => void}} handlers
 * @param {{every?: number}} [options] every: seconds between two looks of the server, 1 to 60
 * @returns {() => void} close
 */
export function watch(paths, handlers, { every = 1 } = {}) {
  const query = new URLSearchParams(paths.map((path) => ["watch", path]));
  if (every > 1) query.set("every", String(every));
  const address = "/api/v1/live?" + query;

  let closed = false;
  let delay = firstDelayMs;
  /** @type {Date|null} */
  let staleSince = null;
  /** @type {AbortController|null} */
  let request = null;
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  let retry;

  function setLive() {
    delay = firstDelayMs;
    staleSince = null;
    handlers.onState({ live: true, staleSince: null, error: null });
  }

  /** @param {unknown} error */
  function setStale(error) {
    staleSince ??= new Date();
    handlers.onState({ live: false, staleSince, error: error instanceof ApiError ? error : null });
    retry = setTimeout(connect, delay * (0.5 + Math.random() / 2));
    delay = Math.min(2 * delay, maxDelayMs);
  }

  async function connect() {
    if (closed || document.hidden) return;
    const current = new AbortController();
    request = current;
    try {
      await readStream(address, current, setLive, dispatch);
      if (request === current) setStale(null);
    } catch (error) {
      if (request === current) setStale(error);
    }
  }

  function disconnect() {
    clearTimeout(retry);
    const current = request;
    request = null;
    current?.abort();
  }

  /** @param {{path: string, status: number, body: any}} message */
  function dispatch({ path, status, body }) {
    if (status === 200) handlers.onData(path, body);
    else handlers.onError(path, toError(body, status));
  }

  function followVisibility() {
    if (document.hidden) disconnect();
    else if (!request) {
      delay = firstDelayMs;
      connect();
    }
  }

  document.addEventListener("visibilitychange", followVisibility);
  connect();
  return () => {
    closed = true;
    document.removeEventListener("visibilitychange", followVisibility);
    disconnect();
  };
}

/**
 * Reads server-sent events until the stream ends.
 * @param {string} address @param {AbortController} request
 * @param {() => void} onOpen @param {(message: any) => void} onMessage
 */
async function readStream(address, request, onOpen, onMessage) {
  const response = await fetch(address, { headers: headers(), signal: request.signal, cache: "no-store" });
  if (!response.ok) {
    await readAnswer(response);
    return;
  }
  onOpen();
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let pending = "";
  for (;;) {
    const silence = setTimeout(() => request.abort(), silenceMs);
    const { done, value } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    pending += decoder.decode(value, { stream: true });
    const events = pending.split("\n\n");
    pending = /** @type {string} */ (events.pop());
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      if (data) onMessage(JSON.parse(data));
    }
  }
}
