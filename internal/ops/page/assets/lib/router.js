// Routes: the part of the address behind "#". All that a view shows is in it, so that a link can be shared.

/** @typedef {{name: string, id: string, params: Record<string, string>}} Route */

/** "#/shards/17?sort=-ops" @param {string} hash @returns {Route} */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, id = ""] = path.split("/");
  return { name: name || "overview", id: decode(id), params: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {Route} route */
export function formatRoute({ name, id, params }) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") query.set(key, value);
  }
  const text = query.toString();
  return "#/" + name + (id && "/" + encodeURIComponent(id)) + (text && "?" + text);
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone "%"
  }
}
