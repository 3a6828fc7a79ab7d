// The messages of the open room: draws what changed, keeps the reader's place.

import { h, icon } from "./dom.js";
import { announce } from "./dialog.js";
import { MessageView, summary } from "./message.js";
import { isRunning } from "./timeline-data.js";
import { dayKey, dayName, plural } from "./words.js";
import { localView } from "./local.js";
import { emptyState } from "./empty.js";

const GROUP_MS = 5 * 60_000;
const NEAR_PX = 80;

export class TimelineView {
  /** `actions`: loadOlder(), reply(message), react(message, key, on), remove(message), read(), suggest(text), addAgent(). */
  constructor(store, outbox, actions) {
    Object.assign(this, { store, outbox, actions });
    this.views = new Map();
    this.separators = new Map();
    this.following = true;
    this.missed = 0;
    this.list = h("div", { class: "messages" });
    this.older = h("button", { type: "button", class: "older button", hidden: true, on: { click: () => this.#loadOlder() } }, "Show earlier messages");
    this.scroller = h("div", { id: "timeline", class: "timeline", tabindex: 0, role: "log", "aria-live": "off", "aria-label": "Messages" },
      this.older, this.list);
    this.jump = h("button", { type: "button", class: "jump", hidden: true, on: { click: () => this.toEnd(true) } });
    this.element = h("div", { class: "timeline-frame" }, this.scroller, this.jump);
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.#key(event));
    for (const hand of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      this.scroller.addEventListener(hand, () => (this.gliding = false), { passive: true });
    }
    this.list.addEventListener("load", () => this.#settle(), true);
    new ResizeObserver(() => this.#settle()).observe(this.scroller);
    this.settle = () => this.#settle();
    this.held = null; // while a pointer is down here: what waits to be drawn
    this.scroller.addEventListener("pointerdown", () => (this.held ??= []), { passive: true });
    for (const end of ["pointerup", "pointercancel", "blur"]) window.addEventListener(end, () => setTimeout(() => this.#release()));
    store.on("timeline", (detail) => detail.roomId === store.current && this.#whenFree(() => this.#changed(detail)));
    store.on("rooms", () => this.#whenFree(() => this.roomId !== null && this.draw()));
    this.roomId = null;
  }

  /** Nothing moves under a pressed pointer: a click would be lost, a selection torn. */
  #whenFree(draw) {
    if (this.held) this.held.push(draw);
    else draw();
  }

  #release() {
    const held = this.held ?? [];
    this.held = null;
    for (const draw of held) draw();
  }

  /** Shows another room from its newest message on. */
  show(roomId) {
    this.held &&= [];
    this.roomId = roomId;
    this.views.clear();
    this.separators.clear();
    this.list.replaceChildren();
    this.missed = 0;
    this.following = true;
    this.anchor = null;
    this.newFrom = this.#firstUnread();
    this.draw();
    this.toEnd();
  }

  #firstUnread() {
    const { unread = 0 } = this.store.rooms.get(this.roomId) ?? {};
    const { messages, loaded } = this.store.timeline(this.roomId);
    if (!loaded) return undefined;
    return unread > 0 ? messages.at(-Math.min(unread, messages.length))?.event_id ?? null : null;
  }

  #changed({ change, message, entry }) {
    if (change === "progress") {
      this.views.get(`local-${entry.txn}`)?.draw(entry);
      return;
    }
    if (change === "reset" && this.newFrom === undefined) this.newFrom = this.#firstUnread();
    const keep = change === "prepend" ? this.scroller.scrollHeight - this.scroller.scrollTop : null;
    const before = change === "changed" ? this.views.get(message.event_id)?.message : null;
    if (change === "local") this.following = true;
    this.draw();
    if (keep !== null) this.scroller.scrollTop = this.scroller.scrollHeight - keep;
    if (change === "added") this.#arrived(message);
    if (before && isRunning(before) && !isRunning(message)) this.#answered(message);
    if (change === "local" || change === "reset") this.#settle();
  }

  #arrived(message) {
    const own = message.sender === this.store.me.user_id;
    if (!own) announce(isRunning(message) ? `${message.sender_name} is working on it.` : `${message.sender_name}: ${summary(message)}`);
    if (!this.following && !own) this.missed += 1;
    this.anchor = message.event_id;
    this.#settle();
    this.#seen();
  }

  /** A running message became the answer: announced once, and read from its beginning. */
  #answered(message) {
    announce(`${message.sender_name}: ${summary(message)}`);
    this.anchor = message.event_id;
    this.#settle();
  }

  draw() {
    const timeline = this.store.timeline(this.roomId);
    const elements = [];
    let previous = null;
    for (const message of timeline.messages) {
      const newDay = !previous || dayKey(previous.ts) !== dayKey(message.ts);
      const isNew = message.event_id === this.newFrom;
      if (newDay) elements.push(this.#separator(`day-${dayKey(message.ts)}`, () => h("div", { class: "day", role: "separator", "aria-label": dayName(message.ts) }, h("span", {}, dayName(message.ts)))));
      if (isNew) elements.push(this.#separator("new", () => h("div", { class: "day new", role: "separator", "aria-label": "New messages" }, h("span", {}, "New"))));
      const view = this.#view(message.event_id, () => new MessageView({
        store: this.store, onReply: this.actions.reply, onReact: this.actions.react, onRemove: this.actions.remove,
        onJump: (id) => this.jumpTo(id) }));
      const grouped = !newDay && !isNew && groups(previous, message);
      view.draw(message, { grouped, goesOn: grouped && sameLate(previous, message) });
      elements.push(view.element);
      previous = message;
    }
    for (const entry of this.outbox.inRoom(this.roomId)) {
      const view = this.#view(`local-${entry.txn}`, () => localView(this.store, this.outbox));
      view.draw(entry);
      elements.push(view.element);
    }
    if (timeline.loaded && elements.length === 0) elements.push(emptyState(this.store, this.actions));
    if (!timeline.loaded) elements.push(h("p", { class: "loading" }, h("span", { class: "ring" }), "Fetching messages…"));
    place(this.list, elements);
    this.older.hidden = !timeline.more;
    this.#settle();
  }

  #view(key, make) {
    if (!this.views.has(key)) this.views.set(key, make());
    return this.views.get(key);
  }

  #separator(key, make) {
    if (!this.separators.has(key)) this.separators.set(key, make());
    return this.separators.get(key);
  }

  /** Follows the end, but never past the beginning of the message that is being read. */
  #settle() {
    if (this.held) {
      if (!this.held.includes(this.settle)) this.held.push(this.settle);
      return;
    }
    if (this.following) {
      const element = this.anchor && this.views.get(this.anchor)?.element;
      const end = this.scroller.scrollHeight - this.scroller.clientHeight;
      const top = element?.isConnected ? element.offsetTop - 12 : end;
      this.scroller.scrollTop = Math.min(end, Math.max(top, 0));
      this.placed = this.scroller.scrollTop;
    }
    this.#drawJump();
  }

  #scrolled() {
    const near = this.#distance() < NEAR_PX;
    const byUs = this.gliding || Math.abs(this.scroller.scrollTop - this.placed) < 2;
    if (near) {
      this.gliding = false;
      this.following = true;
      this.missed = 0;
      this.#seen();
    } else if (!byUs) {
      this.following = false;
      this.anchor = null;
    }
    if (this.scroller.scrollTop < 200 && !this.older.hidden && !this.following) this.#loadOlder();
    this.#drawJump();
  }

  #distance() {
    return this.scroller.scrollHeight - this.scroller.clientHeight - this.scroller.scrollTop;
  }

  #drawJump() {
    this.jump.hidden = this.#distance() < NEAR_PX;
    const words = this.missed > 0 ? plural(this.missed, "new message") : "To the newest";
    if (this.jump.textContent !== words) this.jump.replaceChildren(icon("down"), h("span", {}, words));
  }

  #seen() {
    if (this.store.timeline(this.roomId).loaded) this.actions.read();
  }

  /** The reader is at (or was led to) the end, so what is there counts as read. */
  get atEnd() {
    return this.following;
  }

  toEnd(smooth = false) {
    this.following = true;
    this.anchor = null;
    this.missed = 0;
    this.gliding = smooth && this.#distance() >= NEAR_PX;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior: smooth && !calm ? "smooth" : "instant" });
    if (!smooth) this.placed = this.scroller.scrollTop;
    this.#drawJump();
  }

  async #loadOlder() {
    if (this.loading) return;
    this.loading = true;
    await this.actions.loadOlder();
    this.loading = false;
  }

  jumpTo(eventId) {
    const element = this.views.get(eventId)?.element;
    if (!element) return;
    this.following = false;
    element.scrollIntoView({ block: "center" });
    element.focus({ preventScroll: true });
    element.classList.add("found");
    setTimeout(() => element.classList.remove("found"), 1500);
  }

  /** Arrow keys walk from message to message; R replies, E reacts, Delete removes; Escape goes back to writing. */
  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const articles = [...this.list.querySelectorAll("article.msg")];
    const at = articles.indexOf(document.activeElement?.closest("article.msg"));
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      if (articles.length === 0 || document.activeElement.matches("pre, .table-frame")) return;
      event.preventDefault();
      const next = at < 0 ? articles.length - 1 : at + (event.key === "ArrowUp" ? -1 : 1);
      articles[Math.max(0, Math.min(next, articles.length - 1))].focus();
    } else if (at >= 0 && this.#command(event.key, articles[at].dataset.event)) {
      event.preventDefault();
    } else if (event.key === "Escape") {
      document.getElementById("text")?.focus();
    }
  }

  /** A key on a message; whether it meant something. */
  #command(key, eventId) {
    const message = this.store.timeline(this.roomId).byId.get(eventId);
    if (!message || message.redacted) return false;
    if (key.toLowerCase() === "r") this.actions.reply(message);
    else if (key.toLowerCase() === "e") this.views.get(eventId)?.react();
    else if (key === "Delete" && message.sender === this.store.me.user_id) this.actions.remove(message);
    else return false;
    return true;
  }
}

/** Parts of one late result, or several after the same turn: said once. */
const sameLate = (previous, message) => Boolean(previous?.late && message.late) && previous.late.after === message.late.after;

const groups = (previous, message) => previous.sender === message.sender && message.ts - previous.ts < GROUP_MS
  && !message.reply_to && message.kind !== "notice" && previous.kind !== "notice"
  && Boolean(previous.late) === Boolean(message.late);

/** Makes `parent` hold exactly `elements`, moving as little as possible. */
function place(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, index) => {
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
  });
}
