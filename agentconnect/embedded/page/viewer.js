// Looking at a file without leaving the room: pictures large, texts as text.

import { h, icon } from "./dom.js";
import { openDialog } from "./dialog.js";
import { sizeOf } from "./words.js";

const TEXT_LIMIT_BYTES = 1_000_000;
const TEXT_NAME = /\.(txt|md|csv|tsv|log|json|jsonl|ya?ml|toml|ini|cfg|py|js|ts|css|html?|xml|sh|rs|go|c|h|cpp|java|rb|sql|diff|patch)$/i;

export const isImage = (file) => /^image\/(png|jpeg|gif|webp)$/.test(file.mime);

export const isReadable = (file) => file.size <= TEXT_LIMIT_BYTES
  && (/^text\//.test(file.mime) || /^application\/(json|xml|yaml|toml|x-sh|javascript)/.test(file.mime) || TEXT_NAME.test(file.name));

const saveLink = (file) => h("a", { class: "button", href: file.url, download: file.name }, icon("save"), "Save");

export function openImage(file) {
  openDialog({
    title: file.name,
    wide: true,
    body: [h("img", { class: "viewer-image", src: file.url, alt: file.name })],
    actions: [saveLink(file), h("a", { class: "button", href: file.url, target: "_blank", rel: "noopener" }, "Open in a tab")],
  });
}

export async function openFile(file) {
  const text = h("pre", { class: "viewer-text", tabindex: 0 }, "Opening…");
  openDialog({ title: file.name, wide: true, body: [h("p", { class: "quiet" }, sizeOf(file.size)), text], actions: [saveLink(file)] });
  try {
    const response = await fetch(file.url);
    text.textContent = response.ok ? await response.text() : "The relay does not have this file any more.";
  } catch {
    text.textContent = "The file could not be fetched right now. Please try again in a moment.";
  }
}

