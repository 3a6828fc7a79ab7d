// Dialogs and short notes. A dialog keeps the focus inside and gives it back when it closes.

import { byId, h, iconButton } from "./dom.js";

let count = 0;

/** Opens a modal dialog; returns `{close, element}`. `actions` stand at its foot. */
export function openDialog({ title, body, actions = [], wide = false, onClose = () => {} }) {
  const titleId = `dialog-${(count += 1)}`;
  const element = h("dialog", { class: wide ? "dialog wide" : "dialog", "aria-labelledby": titleId });
  const close = () => element.close();
  element.append(
    h("header", { class: "dialog-head" }, h("h2", { id: titleId }, title),
      iconButton("close", "Close", { on: { click: close } })),
    h("div", { class: "dialog-body" }, ...body),
    ...(actions.length > 0 ? [h("footer", { class: "dialog-foot" }, ...actions)] : []),
  );
  const before = document.activeElement;
  element.addEventListener("close", () => {
    element.remove();
    onClose();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
  });
  element.addEventListener("mousedown", (event) => event.target === element && close());
  document.body.append(element);
  element.showModal();
  return { close, element };
}

/**
 * A dialog around a form. `onSubmit(fields)` may throw: its message is shown and nothing is lost.
 * A returned array of nodes replaces the form; anything else closes the dialog.
 */
export function openForm({ title, fields, submit, danger = false, onSubmit }) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const go = h("button", { type: "submit", class: danger ? "button danger" : "button primary" }, submit);
  const form = h("form", { class: "form" }, ...fields, problem,
    h("div", { class: "form-foot" }, h("button", { type: "button", class: "button", on: { click: () => dialog.close() } }, "Cancel"), go));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    go.disabled = true;
    try {
      const result = await onSubmit(new FormData(form));
      if (Array.isArray(result)) showResult(dialog, result);
      else dialog.close();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      go.disabled = false;
    }
  });
  const dialog = openDialog({ title, body: [form] });
  form.querySelector("[autofocus], input, select, textarea")?.focus();
  return dialog;
}

function showResult(dialog, nodes) {
  const body = dialog.element.querySelector(".dialog-body");
  const done = h("button", { type: "button", class: "button primary", on: { click: dialog.close } }, "Done");
  body.replaceChildren(...nodes, h("div", { class: "form-foot" }, done));
  body.querySelector("button")?.focus();
}

/** Asks before something that cannot be taken back. */
export function confirmDialog({ title, text, submit, onConfirm }) {
  return openForm({ title, submit, danger: true, fields: [h("p", {}, text)], onSubmit: onConfirm });
}

/** A short note at the edge; for what went wrong outside any form. */
export function toast(text) {
  const note = h("div", { class: "toast" }, h("span", {}, text),
    iconButton("close", "Dismiss", { on: { click: () => note.remove() } }));
  byId("toasts").append(note);
  setTimeout(() => note.remove(), 8000);
}

/** Says something to screen readers only. */
export function announce(text) {
  const line = h("p", {}, text);
  byId("announcer").append(line);
  setTimeout(() => line.remove(), 5000);
}
