// The lines that show the same data in a terminal.

import { commandLine, html } from "./dom.js";

/**
 * @param {{curl: string, cleave: string}} lines curl: a path from apiPath; cleave: a command without --addr
 */
export function sameData({ curl, cleave }) {
  const address = location.protocol === "https:" ? location.origin : location.host;
  const usual = location.host === "127.0.0.1:7380" || location.host === "localhost:7380";
  return html`<footer class="same" aria-label="The same data in a terminal">
    <span class="same-label">Same data</span>
    ${commandLine(cleave + (usual ? "" : " --addr " + address))}
    ${commandLine(`curl -fsS '${location.origin}${curl.replaceAll("'", "%27")}'`)}
  </footer>`;
}
