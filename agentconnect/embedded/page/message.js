// One message as an element that changes in place: parts are redrawn only where they differ.

import { h, icon, iconButton, rendered } from "./dom.js";
import { offerReactions, reactionChips } from "./marks.js";
import { isRunning, liveParts } from "./timeline-data.js";
import { clock, fullTime, shortClock, sizeOf } from "./words.js";
import { openFile, openImage, isImage, isReadable } from "./viewer.js";

const EARLIER_STEPS = 3;

export class MessageView {
  /** `context`: store, onReply(message), onJump(eventId), onReact(message, key, on), onRemove(message). */
  constructor(context) {
    this.context = context;
    this.signatures = {};
    this.parts = {};
    for (const name of ["head", "late", "quote", "body", "file", "reactions", "note"]) {
      this.parts[name] = h("div", { class: `msg-${name}`, hidden: true });
    }
    this.gutter = h("div", { class: "msg-gutter" });
    this.actions = h("div", { class: "msg-actions" });
    this.element = h("article", { class: "msg", tabindex: -1 }, this.gutter,
      h("div", { class: "msg-main" }, ...Object.values(this.parts)), this.actions);
    this.parts.body.setAttribute("dir", "auto");
  }

  draw(message, { grouped, goesOn = false }) {
    const { store } = this.context;
    const own = message.sender === store.me.user_id;
    const running = isRunning(message);
    this.message = message;
    this.element.dataset.event = message.event_id;
    this.element.className = ["msg", grouped ? "grouped" : "first", own && "own", running && "running",
      message.kind === "notice" && "notice", message.redacted && "redacted"].filter(Boolean).join(" ");
    this.element.setAttribute("aria-label", [message.sender_name, clock(message.ts), message.late && "arrived later"].filter(Boolean).join(", "));
    this.#part("gutter", [grouped, message.sender, message.ts], () => this.#gutter(message, grouped));
    this.#part("head", grouped ? null : [message.sender_name, message.ts], () => this.#head(message));
    this.#part("late", message.late && !goesOn ? [message.late, message.ts] : null, () => this.#late(message));
    this.#part("quote", this.#quoteKey(message), () => this.#quote(message));
    this.#part("body", this.#bodyKey(message, running), () => running ? this.#live(message) : this.#body(message));
    this.#part("file", message.file && !message.redacted ? message.file : null, () => fileCard(message.file));
    this.#part("reactions", message.reactions?.length ? message.reactions : null, () => reactionChips(message, store, (key, on) => this.context.onReact(this.message, key, on)));
    this.#part("note", message.edited && message.kind === "text" && !this.#byAgent(message) ? ["edited"] : null,
      () => [h("span", { class: "edited" }, "edited")]);
    this.#part("actions", [running, own, message.redacted], () => this.#actions(message, running, own));
  }

  #byAgent(message) {
    const kind = this.context.store.memberOf(message.sender, message.room_id)?.kind;
    return kind === "agent" || kind === "concierge";
  }

  /** Redraws a part when `key` changed; a null key empties it. */
  #part(name, key, draw) {
    const signature = JSON.stringify(key ?? null);
    if (this.signatures[name] === signature) return;
    this.signatures[name] = signature;
    const part = this.parts[name] ?? this[name];
    part.hidden = key === null || key === undefined;
    part.replaceChildren(...(part.hidden ? [] : [draw()].flat()));
  }

  #gutter(message, grouped) {
    if (grouped) return h("time", { datetime: iso(message.ts), title: fullTime(message.ts), "aria-hidden": "true" }, shortClock(message.ts));
    return avatar(message.sender, message.sender_name, this.#byAgent(message));
  }

  #head(message) {
    const member = this.context.store.memberOf(message.sender, message.room_id);
    const robot = member?.kind === "agent" || member?.kind === "concierge";
    return [
      h("span", { class: "sender" }, message.sender_name),
      robot && h("span", { class: `badge ${member.kind}` }, member.kind),
      h("time", { datetime: iso(message.ts), title: fullTime(message.ts) }, clock(message.ts)),
    ].filter(Boolean);
  }

  /** What came after its turn: when, and after which request of this room. */
  #late({ late, ts }) {
    return h("p", { class: "late-line" }, icon("clock"),
      h("span", { class: "late-words" }, "Arrived later, at ", h("time", { datetime: iso(ts), title: fullTime(ts) }, clock(ts))),
      late.text && h("button", { type: "button", class: "late-after", "aria-label": `Came after the answer to ${late.sender}: ${late.text}`,
        on: { click: () => this.context.onJump(late.after) } }, `after “${late.text}”`));
  }

  #quoteKey(message) {
    if (!message.reply_to) return null;
    const quoted = this.#quoted(message);
    return [message.reply_to, quoted?.sender_name, quoted?.body.slice(0, 160), quoted?.redacted];
  }

  #quoted(message) {
    return this.context.store.timeline(message.room_id).byId.get(message.reply_to);
  }

  #quote(message) {
    const quoted = this.#quoted(message);
    return h("button", { type: "button", class: "quote", "aria-label": `In reply to ${quoted?.sender_name ?? "an earlier message"}`,
      on: { click: () => this.context.onJump(message.reply_to) } },
      icon("reply"),
      h("span", { class: "quote-name" }, quoted?.sender_name ?? "Earlier message"),
      h("span", { class: "quote-text" }, quoted ? summary(quoted) : ""));
  }

  #bodyKey(message, running) {
    if (message.redacted) return ["redacted"];
    if (running) return ["live", message.body, this.#earlier(message)];
    if (message.file && !message.body) return null;
    if (message.file && message.body === message.file.name) return null;
    return [message.html, message.body];
  }

  #earlier(message) {
    return this.context.store.timeline(message.room_id).steps.get(message.event_id) ?? [];
  }

  #live(message) {
    const { lead, step } = liveParts(message.body);
    const steps = this.#earlier(message).filter((one) => one !== step).slice(-EARLIER_STEPS);
    return h("div", { class: "live" },
      h("p", { class: "live-lead" }, h("span", { class: "ring", "aria-hidden": "true" }), h("span", {}, lead)),
      (steps.length > 0 || step) && h("ul", { class: "steps", "aria-label": "Steps so far" },
        steps.map((one) => h("li", { class: "step done" }, icon("check"), h("span", {}, one))),
        step && h("li", { class: "step now" }, h("span", { class: "dot", "aria-hidden": "true" }), h("span", {}, step))));
  }

  #body(message) {
    if (message.redacted) return h("p", { class: "quiet" }, "This message was removed.");
    if (!message.html) return h("p", { class: "plain" }, message.body);
    const content = rendered(message.html);
    for (const block of content.querySelectorAll("pre")) withCopy(block);
    for (const table of content.querySelectorAll("table")) {
      const frame = h("div", { class: "table-frame", tabindex: 0 });
      table.replaceWith(frame);
      frame.append(table);
    }
    markMentions(content, this.context.store, message.room_id);
    return content;
  }

  #actions(message, running, own) {
    if (message.redacted) return [];
    const act = (name, label, click) => iconButton(name, label, { tabindex: -1, on: { click } });
    return [
      act("smile", "React", () => this.react()),
      act("reply", `Reply to ${message.sender_name}`, () => this.context.onReply(this.message)),
      !running && message.body && copyButton("Copy the text", () => this.message.body, { tabindex: -1 }),
      own && act("trash", "Remove this message", () => this.context.onRemove(this.message)),
    ].filter(Boolean);
  }

  /** Opens the menu of reactions at this message. */
  react() {
    offerReactions(this.element, this.element, (key) => this.context.onReact(this.message, key, true));
  }
}

const iso = (ts) => new Date(ts).toISOString();

/** A message in one line, for quotes and announcements. */
export function summary(message) {
  if (message.redacted) return "This message was removed.";
  if (message.file && (!message.body || message.body === message.file.name)) return `File: ${message.file.name}`;
  return message.body.replace(/\s+/g, " ").trim().slice(0, 200);
}

/** Initials on a colour that follows from the id. */
export function avatar(userId, name, square = false) {
  const hue = [...userId].reduce((sum, char) => (sum * 31 + char.codePointAt(0)) >>> 0, 7) % 8;
  const words = name.trim().split(/[\s._-]+/).filter(Boolean);
  const initials = words.slice(0, 2).map((word) => [...word][0]).join("").toUpperCase() || "?";
  return h("span", { class: `avatar hue-${hue}${square ? " square" : ""}`, "aria-hidden": "true" }, initials);
}

export function copyButton(label, text, props = {}) {
  const button = iconButton("copy", label, props);
  button.addEventListener("click", async () => {
    const done = await copyText(text());
    button.replaceChildren(icon(done ? "check" : "warn"));
    button.setAttribute("aria-label", done ? "Copied" : "Copying did not work");
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.setAttribute("aria-label", label);
    }, 1600);
  });
  return button;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No clipboard on plain http away from this machine: the old way still works there.
  }
  const field = h("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

function withCopy(block) {
  const frame = h("div", { class: "code-frame" });
  const text = block.textContent;
  block.replaceWith(frame);
  block.tabIndex = 0;
  frame.append(block, copyButton("Copy this code", () => text, { tabindex: -1 }));
}

/** Shows `@name:domain` of a member by the name people know. */
function markMentions(content, store, roomId) {
  const members = store.rooms.get(roomId)?.members ?? [];
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement?.closest("code, pre, a")) texts.push(walker.currentNode);
  }
  for (const text of texts) {
    const pieces = text.data.split(/(@[\w.=/-]+:[\w.-]*\w)/);
    if (pieces.length === 1) continue;
    text.replaceWith(...pieces.map((piece) => {
      const member = members.find((one) => one.user_id === piece);
      const own = piece === store.me.user_id ? " mine" : "";
      return member ? h("span", { class: `mention${own}`, title: piece }, `@${member.name}`) : piece;
    }));
  }
}

function fileCard(file) {
  const save = h("a", { class: "icon-button", href: file.url, download: file.name, "aria-label": `Save ${file.name}`, title: "Save" }, icon("save"));
  if (isImage(file)) {
    return h("figure", { class: "image" },
      h("button", { type: "button", class: "image-open", "aria-label": `Open the picture ${file.name}`, on: { click: () => openImage(file) } },
        h("img", { src: file.url, alt: file.name, decoding: "async" })),
      h("figcaption", {}, h("span", { class: "file-name" }, file.name), h("span", { class: "quiet" }, sizeOf(file.size)), save));
  }
  const words = [h("span", { class: "file-name" }, file.name), h("span", { class: "quiet" }, sizeOf(file.size))];
  return h("div", { class: "file-card" }, h("span", { class: "file-icon" }, icon("file")),
    isReadable(file)
      ? h("button", { type: "button", class: "file-open", "aria-label": `Open ${file.name}`, on: { click: () => openFile(file) } }, ...words)
      : h("span", { class: "file-open" }, ...words),
    save);
}
