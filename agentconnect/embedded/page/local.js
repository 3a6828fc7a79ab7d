// A message of ours that the relay does not have yet: sending, waiting or refused.

import { h, icon } from "./dom.js";
import { avatar } from "./message.js";
import { sizeOf } from "./words.js";

export function localView(store, outbox) {
  const note = h("div", { class: "local-note" });
  const progress = h("progress", { max: 1, "aria-label": "Upload" });
  const main = h("div", { class: "msg-main" });
  const element = h("article", { class: "msg own local first" }, h("div", { class: "msg-gutter" }), main);
  let drawn = false;
  let state = "";

  const first = (entry) => {
    element.querySelector(".msg-gutter").append(avatar(store.me.user_id, store.me.name));
    main.append(h("div", { class: "msg-head" }, h("span", { class: "sender" }, store.me.name)));
    if (entry.url) main.append(h("img", { class: "local-image", src: entry.url, alt: entry.name }));
    else if (entry.file) main.append(h("div", { class: "file-card" }, h("span", { class: "file-icon" }, icon("file")),
      h("span", { class: "file-open" }, h("span", { class: "file-name" }, entry.name), h("span", { class: "quiet" }, sizeOf(entry.file.size)))));
    if (entry.body) main.append(h("p", { class: "plain" }, entry.body));
    main.append(note);
    drawn = true;
  };

  const draw = (entry) => {
    if (!drawn) first(entry);
    if (entry.progress !== undefined) progress.value = entry.progress;
    const next = entry.state === "failed" ? "failed" : entry.state === "sent" ? "sent" : entry.tries ? "waiting" : "sending";
    if (next === state) return;
    state = next;
    element.classList.toggle("failed", state === "failed");
    if (state === "failed") {
      note.replaceChildren(h("span", { class: "problem" }, icon("warn"), `Not sent. ${entry.problem}`),
        h("button", { type: "button", class: "link", on: { click: () => outbox.retry(entry) } }, "Try again"),
        h("button", { type: "button", class: "link", on: { click: () => outbox.discard(entry) } }, "Discard"));
    } else if (state === "waiting") {
      note.replaceChildren(h("span", { class: "quiet" }, "Waiting for the relay. It goes out by itself."));
    } else {
      note.replaceChildren(...(entry.file && state === "sending" ? [progress] : []));
    }
  };
  return { element, draw };
}
