// Signing in: one field, remembered for this tab.

import { render } from "../vendor/lit/lit-html.js";
import { apiPath, post, signIn, signOut, token } from "./api.js";
import { openDialog } from "./dialog.js";
import { errorState, html, nothing } from "./dom.js";

/**
 * Asks for the token. @param {{reason?: string}} [options]
 * @returns {Promise<boolean>} whether there is one now
 */
export function askForToken({ reason = "Changes need the token of the server." } = {}) {
  return new Promise((resolve) => {
    /** @type {any} */
    let error = null;
    let busy = false;
    const { dialog, close } = openDialog({ label: "Sign in", onClose: () => resolve(token() !== "") });

    async function submit(/** @type {SubmitEvent} */ event) {
      event.preventDefault();
      const field = /** @type {HTMLInputElement} */ (dialog.querySelector("#token"));
      const before = token();
      signIn(field.value);
      busy = true;
      error = null;
      draw();
      error = await checkToken();
      busy = false;
      if (error) {
        if (before) signIn(before);
        else signOut();
        draw();
        return;
      }
      close();
    }

    function clear() {
      error = null;
      draw();
    }

    function draw() {
      render(html`<form class="form" @submit=${submit}>
        <header><h2>Sign in</h2></header>
        <p>${reason} It is in the file <code>http-token</code> in the directory of the data, and is remembered for this tab alone.</p>
        <label class="field"><span>Token</span><input id="token" type="password" @input=${clear} autocomplete="off" required autofocus></label>
        ${error ? errorState(error) : nothing}
        <footer><button type="button" @click=${close}>Cancel</button><button class="primary" ?disabled=${busy}>Sign in</button></footer>
      </form>`, dialog);
    }
    draw();
    dialog.showModal();
  });
}

/** Plans a change, which the token must allow. @returns {Promise<unknown>} why it does not, null if it does */
async function checkToken() {
  try {
    await post(apiPath("/rebalance"), {}, { dryRun: true });
    return null;
  } catch (error) {
    const status = /** @type {any} */ (error).status;
    if (status === 401) return { message: "This is not the token of this server" };
    // A token for reading is refused with 403, and good for what reads. Other errors are not about the token.
    return status === 0 ? error : null;
  }
}
