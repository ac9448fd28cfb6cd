// Light and dark: what was chosen, and colours for what is not drawn by CSS.

const name = "cleave-theme";
/** @type {Set<() => void>} */
const listeners = new Set();

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", notify);

/** @returns {"auto"|"light"|"dark"} */
export function theme() {
  const chosen = localStorage.getItem(name);
  return chosen === "light" || chosen === "dark" ? chosen : "auto";
}

/** @param {"auto"|"light"|"dark"} choice */
export function setTheme(choice) {
  localStorage.setItem(name, choice);
  applyTheme();
  notify();
}

export function applyTheme() {
  document.documentElement.dataset.theme = theme();
}

/** Calls back when colours change. @param {() => void} callback @returns {() => void} stop */
export function onTheme(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

function notify() {
  for (const callback of listeners) callback();
}

/** The colour that a token such as "--accent" has now. @param {string} token */
export function color(token) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
