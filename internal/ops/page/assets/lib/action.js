export function openAction() {}
