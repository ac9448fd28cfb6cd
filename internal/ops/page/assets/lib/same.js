// The lines that show the same data in a terminal.

import { commandLine, html } from "./dom.js";

/** A command that asks this server. @param {string} command */
export function withAddress(command) {
  const usual = location.host === "127.0.0.1:7380" || location.host === "localhost:7380";
  return command + (usual ? "" : " --addr " + (location.protocol === "https:" ? location.origin : location.host));
}

/**
 * @param {{curl: string, cleave: string}} lines curl: a path from apiPath; cleave: a command without --addr
 */
export function sameData({ curl, cleave }) {
  return html`<footer class="same" aria-label="The same data in a terminal">
    <span class="same-label">Same data</span>
    ${commandLine(withAddress(cleave))}
    ${commandLine(`curl -fsS '${location.origin}${curl.replaceAll("'", "%27")}'`)}
  </footer>`;
}
