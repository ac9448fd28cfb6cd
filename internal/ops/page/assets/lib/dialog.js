// Dialogs: native, so that the browser keeps the focus inside and gives it back.

/**
 * Makes a dialog, which showModal() shows.
 * @param {{label: string, onClose?: () => void}} options
 */
export function openDialog({ label, onClose }) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", label);
  const close = () => dialog.close();
  addEventListener("hashchange", close); // what it was about is not seen any more
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", close);
    dialog.remove();
    onClose?.();
  });
  // A click beside the box is one on the dialog itself.
  dialog.addEventListener("pointerdown", (event) => {
    if (event.target === dialog && isOutside(dialog, event)) close();
  });
  document.body.append(dialog);
  return { dialog, close };
}

/** @param {HTMLElement} el @param {PointerEvent} event */
function isOutside(el, event) {
  const box = el.getBoundingClientRect();
  return event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom;
}
