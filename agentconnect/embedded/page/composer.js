// Writing: text, files, replies, a draft per room. Enter sends, Shift+Enter starts a new line.

import { h, icon, iconButton } from "./dom.js";
import { Completion } from "./complete.js";
import { announce, toast } from "./dialog.js";
import { kept } from "./kept.js";
import { summary } from "./message.js";
import { roomName } from "./rooms.js";
import { sizeOf } from "./words.js";

const DRAFT_PAUSE_MS = 250;

const CAPTION_CHARS = 1000; // a caption travels in the address of the upload

export class Composer {
  constructor(store, outbox, { onEscape }) {
    Object.assign(this, { store, outbox, onEscape });
    this.files = new Map(); // room id → files picked there and not sent yet
    this.replies = new Map();
    this.field = h("textarea", { id: "text", rows: 1, "aria-label": "Message", "aria-describedby": "keys", enterkeyhint: "send",
      spellcheck: "true", autocomplete: "off", on: { input: () => this.#typed(), keydown: (event) => this.#key(event), paste: (event) => this.#paste(event) } });
    this.completion = new Completion(store, this.field);
    this.picker = h("input", { type: "file", multiple: true, class: "unseen", tabindex: -1, "aria-hidden": "true", id: "file-picker",
      on: { change: () => this.#picked() } });
    this.previews = h("ul", { class: "previews", "aria-label": "Files to send", hidden: true });
    this.reply = h("div", { class: "replying", hidden: true });
    this.go = h("button", { type: "submit", class: "send", "aria-label": "Send", title: "Send" }, icon("send"));
    this.element = h("form", { class: "composer", "aria-label": "Write a message", on: { submit: (event) => (event.preventDefault(), this.send()) } },
      this.completion.list, this.reply, this.previews,
      h("div", { class: "composer-row" },
        iconButton("clip", "Add files", { on: { click: () => this.picker.click() } }), this.picker, this.field, this.go),
      h("p", { id: "keys", class: "keys" }, "Enter sends · Shift+Enter starts a new line · @ mentions · ! calls an agent"));
    store.on("rooms", () => this.#placeholder());
  }

  #draftKey(roomId) {
    return `draft.${this.store.me.user_id}.${roomId}`;
  }

  /** Turns to another room, with whatever was begun there. */
  show(roomId) {
    this.#keep();
    this.roomId = roomId;
    this.field.value = kept.get(this.#draftKey(roomId), "");
    this.completion.close();
    this.#placeholder();
    this.#drawReply();
    this.#drawFiles();
    this.#fit();
  }

  #placeholder() {
    const { room } = this.store;
    if (!room) return;
    const agents = this.store.agentsIn(room);
    const name = roomName(room, this.store);
    this.field.placeholder = room.kind !== "dm" && agents.length === 1 ? `Ask ${agents[0].name}` : `Write to ${room.kind === "dm" ? name : `#${name}`}`;
  }

  focus() {
    this.field.focus();
  }

  suggest(text) {
    this.field.value = text;
    this.field.focus();
    this.field.setSelectionRange(text.length, text.length);
    this.#typed();
  }

  replyTo(message) {
    this.replies.set(this.roomId, message);
    this.#drawReply();
    this.field.focus();
    announce(`Replying to ${message.sender_name}`);
  }

  #drawReply() {
    const message = this.replies.get(this.roomId);
    this.reply.hidden = !message;
    if (!message) return this.reply.replaceChildren();
    const cancel = () => {
      this.replies.delete(this.roomId);
      this.#drawReply();
      this.field.focus();
    };
    return this.reply.replaceChildren(icon("reply"), h("span", { class: "quote-name" }, message.sender_name),
      h("span", { class: "quote-text" }, summary(message)), iconButton("close", "Do not reply to it", { on: { click: cancel } }));
  }

  send() {
    const text = this.field.value.trim();
    const files = this.files.get(this.roomId) ?? [];
    if (!text && files.length === 0) return;
    const [first, ...rest] = files;
    const replyTo = this.replies.get(this.roomId)?.event_id ?? null;
    // A reply and a long text go first: their files follow one by one, as further files always do.
    const apart = replyTo || text.length > CAPTION_CHARS;
    if (first && !apart) this.outbox.sendFile(this.roomId, first.file, first.name, text);
    else if (text) this.outbox.sendText(this.roomId, text, replyTo);
    for (const one of apart ? files : rest) this.outbox.sendFile(this.roomId, one.file, one.name, "");
    for (const one of files) if (one.url) URL.revokeObjectURL(one.url);
    this.files.delete(this.roomId);
    this.replies.delete(this.roomId);
    this.field.value = "";
    this.completion.close();
    this.#keep();
    this.#drawReply();
    this.#drawFiles();
    this.#fit();
    this.field.focus();
  }

  #typed() {
    this.#fit();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#keep(), DRAFT_PAUSE_MS);
  }

  #keep() {
    clearTimeout(this.timer);
    if (!this.roomId) return;
    if (this.field.value.trim()) kept.set(this.#draftKey(this.roomId), this.field.value);
    else kept.drop(this.#draftKey(this.roomId));
  }

  /** As high as its text, up to what the style sheet allows. */
  #fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
    this.go.disabled = !this.field.value.trim() && !this.files.get(this.roomId)?.length;
  }

  #key(event) {
    if (event.isComposing || this.completion.key(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this.send();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.send();
    } else if (event.key === "Escape") {
      if (this.replies.has(this.roomId)) {
        this.replies.delete(this.roomId);
        this.#drawReply();
      } else {
        this.onEscape();
      }
    } else if (event.key === "ArrowUp" && this.field.value === "") {
      event.preventDefault();
      [...document.querySelectorAll("#timeline article.msg")].at(-1)?.focus();
    }
  }

  #paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    this.add(files);
  }

  #picked() {
    this.add([...this.picker.files]);
    this.picker.value = "";
  }

  /** Takes files in, with a look at them; one too big is refused here, in words. */
  add(files) {
    const limit = this.store.limits.upload_bytes;
    const list = this.files.get(this.roomId) ?? [];
    for (const file of files) {
      if (file.size > limit) {
        toast(`${file.name} has ${sizeOf(file.size)}; a file here may have up to ${sizeOf(limit)}.`);
      } else if (file.size === 0) {
        toast(`${file.name} is empty, so there is nothing to send.`);
      } else {
        const url = /^image\/(png|jpeg|gif|webp)$/.test(file.type) ? URL.createObjectURL(file) : "";
        list.push({ file, name: file.name || "pasted", url });
      }
    }
    this.files.set(this.roomId, list);
    this.#drawFiles();
    this.#fit();
    this.field.focus();
  }

  #drawFiles() {
    const list = this.files.get(this.roomId) ?? [];
    this.previews.hidden = list.length === 0;
    this.previews.replaceChildren(...list.map((one, index) => h("li", { class: "preview" },
      one.url ? h("img", { src: one.url, alt: "" }) : h("span", { class: "file-icon" }, icon("file")),
      h("span", { class: "preview-words" }, h("span", { class: "file-name" }, one.name), h("span", { class: "quiet" }, sizeOf(one.file.size))),
      iconButton("close", `Leave out ${one.name}`, { on: { click: () => this.#leaveOut(index) } }))));
  }

  #leaveOut(index) {
    const [gone] = this.files.get(this.roomId).splice(index, 1);
    if (gone.url) URL.revokeObjectURL(gone.url);
    this.#drawFiles();
    this.#fit();
    this.field.focus();
  }

  /** Files dropped anywhere on the room are for its composer. */
  acceptDrops(area) {
    let depth = 0;
    const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
    const mark = (on) => area.classList.toggle("dropping", on);
    area.addEventListener("dragenter", (event) => carriesFiles(event) && mark((depth += 1) > 0));
    area.addEventListener("dragleave", (event) => carriesFiles(event) && mark((depth -= 1) > 0));
    area.addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
    area.addEventListener("drop", (event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      depth = 0;
      mark(false);
      this.add([...event.dataTransfer.files]);
    });
  }

  get unsentFiles() {
    return [...this.files.values()].some((list) => list.length > 0);
  }
}

