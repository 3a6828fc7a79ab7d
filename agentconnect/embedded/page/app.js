// The map of the page: makes the parts, connects them, and decides what follows from an event.

import { Api } from "./api.js";
import { Composer } from "./composer.js";
import { confirmDialog, toast } from "./dialog.js";
import { byId, h } from "./dom.js";
import { Extras } from "./extras.js";
import { Forms } from "./forms.js";
import { clearAddress, showGate, tokenIn, decoded } from "./gate.js";
import { openHelp } from "./help.js";
import { Live } from "./live.js";
import { Outbox } from "./outbox.js";
import { PanelView } from "./panel.js";
import { RoomView } from "./room.js";
import { RoomsView } from "./rooms.js";
import { Store } from "./store.js";
import { TimelineView } from "./timeline.js";
import { AWAY, SIGNED_OUT } from "./words.js";

const STATE_PAUSE_MS = 150; // events come in groups; one look at the state serves them all
const RETRY_MS = 1500;
const CONTENT_EVENTS = new Set(["message", "edit", "react", "reaction", "redact"]);

class Page {
  constructor() {
    const refresh = () => this.refresh();
    this.store = new Store();
    this.api = new Api(() => this.signedOut());
    this.live = new Live(this.api, {
      onEvent: (type, data) => this.event(type, data),
      onLink: (up) => this.store.setLink(up),
      onReset: () => this.resync(),
    });
    this.outbox = new Outbox(this.api, this.store);
    this.forms = new Forms(this.api, this.store, { refresh, open: (roomId) => this.go(roomId) });
    this.composer = new Composer(this.store, this.outbox, { onEscape: () => this.panel.isOpen && this.togglePanel(false) });
    this.timeline = new TimelineView(this.store, this.outbox, {
      loadOlder: () => this.loadOlder(),
      reply: (message) => this.composer.replyTo(message),
      react: (message, key, on) => this.try(this.api.react(message.room_id, message.event_id, key, on)),
      remove: (message) => this.forms.removeMessage(message),
      suggest: (text) => this.composer.suggest(text),
      addAgent: this.forms.addAgent,
      read: () => this.markRead(),
    });
    this.rooms = new RoomsView(this.store, {
      open: (roomId) => this.go(roomId),
      createRoom: this.forms.createRoom,
      startDm: this.forms.startDm,
      concierge: () => this.try(this.forms.message(this.store.concierge)),
      help: openHelp,
      signOut: () => this.signOut(),
    });
    this.panel = new PanelView(this.store, {
      ...this.forms,
      message: (userId) => this.try(this.forms.message(userId)),
      setFilter: (box) => this.setFilter(box),
      close: () => this.togglePanel(false),
    });
    this.room = new RoomView(this.store, this.timeline, this.composer, {
      back: () => this.go(null),
      panel: () => this.togglePanel(!this.panel.isOpen),
    });
    this.extras = new Extras(this.api);
    this.listen();
  }

  listen() {
    this.store.on("current", () => this.showCurrent());
    this.store.on("link", () => this.showLink());
    window.addEventListener("hashchange", () => this.addressChanged());
    window.addEventListener("focus", () => this.markRead());
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("beforeunload", (event) => (this.outbox.holdsFiles || this.composer.unsentFiles) && event.preventDefault());
    for (const link of document.querySelectorAll("[data-skip]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        byId(link.dataset.skip)?.focus();
      });
    }
  }

  /** Comes in: by the link's token if there is one, else by the cookie of an earlier visit. */
  async start() {
    const token = tokenIn(location.hash);
    try {
      if (token) await this.api.login(token);
      clearAddress(); // only now: a reload before this moment must not lose the way in
      await this.enter();
    } catch (error) {
      if (error.status === undefined) throw error;
      if (error.passing) {
        this.showLink(true);
        setTimeout(() => this.start(), RETRY_MS);
      } else {
        clearAddress();
        const sentence = error.status === 401 && !token ? "Open your own link to come in." : error.message;
        showGate(sentence, (pasted) => this.login(pasted));
      }
    }
  }

  async login(token) {
    await this.api.login(token);
    await this.enter();
  }

  async enter() {
    const state = await this.api.state();
    this.store.timelines.clear();
    this.store.takeState(state);
    this.showLink();
    byId("gate").hidden = true;
    byId("boot").hidden = true;
    byId("shell").hidden = false;
    document.body.dataset.screen = "rooms";
    this.outbox.resume();
    this.live.start(state.cursor);
    const wide = matchMedia("(min-width: 761px)").matches;
    const wished = roomInAddress();
    const rooms = [...this.store.rooms.values()].sort((a, b) => b.last_ts - a.last_ts);
    const first = this.store.rooms.has(wished) ? wished : wide || rooms.length === 1 ? rooms[0]?.room_id ?? null : null;
    if (first) history.replaceState(null, "", addressOf(first));
    this.store.open(first);
    this.extras.refresh();
  }

  signedOut() {
    if (document.body.dataset.screen !== "rooms") return;
    this.live.stop();
    showGate(SIGNED_OUT, (pasted) => this.login(pasted));
  }

  signOut() {
    confirmDialog({
      title: "Sign out?",
      text: "You need your own link to come back. Have you kept it?",
      submit: "Sign out",
      onConfirm: async () => {
        await this.api.logout();
        this.live.stop();
        showGate("You are signed out. Open your own link to come back.", (pasted) => this.login(pasted));
      },
    });
  }

  // --- where we are -------------------------------------------------------------------------

  go(roomId) {
    if (roomId === this.store.current && document.body.dataset.view === "room") return this.composer.focus();
    history.pushState(null, "", roomId ? addressOf(roomId) : location.pathname);
    return this.store.open(roomId);
  }

  addressChanged() {
    if (location.hash.startsWith("#k=")) {
      this.live.stop();
      this.start();
      return;
    }
    const wished = roomInAddress();
    if (wished !== this.store.current) this.store.open(this.store.rooms.has(wished) ? wished : null);
  }

  async showCurrent() {
    const roomId = this.store.current;
    const narrow = matchMedia("(max-width: 760px)").matches;
    document.body.dataset.view = roomId ? "room" : "rooms";
    this.room.show(roomId);
    if (!roomId) {
      this.togglePanel(false);
      if (narrow && this.cameFrom) document.querySelector(`[data-room="${CSS.escape(this.cameFrom)}"]`)?.focus();
      return;
    }
    this.cameFrom = roomId;
    if (narrow) this.togglePanel(false);
    if (narrow) byId("room").focus();
    else this.composer.focus();
    if (!this.store.timeline(roomId).loaded) await this.try(this.fetchRoom(roomId));
    this.markRead();
  }

  togglePanel(open) {
    const was = this.panel.isOpen;
    this.panel.toggle(open);
    this.room.panelOpen(open);
    if (was && !open) this.room.members.focus();
  }

  showLink(away = !this.store.linkUp) {
    clearTimeout(this.bannerTimer);
    const banner = byId("banner");
    if (!away) {
      banner.hidden = true;
      banner.textContent = "";
      return;
    }
    // A short gap is nobody's business: only an absence that lasts is worth a line.
    this.bannerTimer = setTimeout(() => {
      banner.replaceChildren(h("span", { class: "ring", "aria-hidden": "true" }), h("span", {}, AWAY));
      banner.hidden = false;
    }, 400);
  }

  key(event) {
    if (document.querySelector("dialog[open]") || document.body.dataset.screen !== "rooms") return;
    if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault();
      const next = this.rooms.neighbour(event.key === "ArrowDown" ? 1 : -1);
      if (next) this.go(next);
    } else if ((event.ctrlKey || event.metaKey) && event.key === "/") {
      event.preventDefault();
      openHelp();
    }
  }

  // --- what comes over the wire -------------------------------------------------------------

  event(type, data) {
    if (CONTENT_EVENTS.has(type)) {
      if (data.message) this.messageCame(type, data.room_id, data.message);
      else this.try(this.fetchRoom(data.room_id));
    } else if (type === "presence" && data.user_id) {
      this.store.setPresence(data.user_id, data.online);
    } else {
      this.refreshSoon();
    }
  }

  messageCame(type, roomId, message) {
    const { store } = this;
    const own = message.sender === store.me.user_id;
    if (own) this.outbox.adopt(roomId, message);
    const change = store.take(roomId, message);
    if (!store.rooms.has(roomId)) this.refreshSoon();
    if (own || type !== "message" || change === "same" || change === "changed") return;
    if (roomId === store.current && this.reading) this.markRead();
    else store.countUnread(roomId);
  }

  refreshSoon() {
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => this.try(this.refresh()), STATE_PAUSE_MS);
  }

  async refresh() {
    let state = await this.api.state();
    // Overtaken by the stream on its way: an older count must not replace a newer one.
    if (state.cursor < this.live.cursor) state = await this.api.state();
    this.store.takeState(state);
    this.markRead();
  }

  /** The stream cannot go on where we were: look at everything anew. */
  async resync() {
    const state = await this.api.state();
    this.store.takeState(state);
    for (const [roomId, timeline] of this.store.timelines) {
      if (roomId !== this.store.current) timeline.loaded = false;
    }
    if (this.store.current) await this.fetchRoom(this.store.current);
    this.markRead();
    return state.cursor;
  }

  async fetchRoom(roomId) {
    const timeline = this.store.timeline(roomId);
    const known = timeline.loaded ? new Set(timeline.byId.keys()) : null;
    const request = this.api.messages(roomId).then((page) => {
      for (const message of page.messages) {
        if (known && !known.has(message.event_id) && message.sender === this.store.me.user_id) this.outbox.adopt(roomId, message);
      }
      return page;
    });
    await this.store.refreshTimeline(roomId, request);
    this.outbox.tidy(roomId);
  }

  async loadOlder() {
    const roomId = this.store.current;
    const { messages } = this.store.timeline(roomId);
    if (messages.length === 0) return;
    await this.try(this.store.prependTimeline(roomId, this.api.messages(roomId, messages[0].seq)));
  }

  /** Somebody looks at the newest message of the open room. */
  get reading() {
    return document.visibilityState === "visible" && document.hasFocus() && this.timeline.atEnd;
  }

  markRead() {
    const { store } = this;
    const last = store.current ? store.timeline(store.current).last : null;
    if (!last || !store.room || !this.reading) return;
    if (store.room.unread === 0 && (this.readTo ?? {})[store.current] >= last.seq) return;
    this.readTo = { ...this.readTo, [store.current]: last.seq };
    store.markRead(store.current);
    this.api.read(store.current, last.seq).catch(() => {}); // the next one tells it again
  }

  async setFilter(box) {
    box.disabled = true;
    await this.try(this.api.settings(this.store.current, { sensitive_data_filter: box.checked }).then(() => this.refresh()));
    this.panel.draw();
  }

  /** Waits for something that people see fail, and then says so kindly. */
  async try(promise) {
    try {
      await promise;
    } catch (error) {
      if (error.status === undefined) throw error;
      if (error.status !== 401) toast(error.message);
    }
  }
}

const addressOf = (roomId) => `#r=${encodeURIComponent(roomId)}`;

function roomInAddress() {
  const match = /^#r=(.+)$/.exec(location.hash);
  return match ? decoded(match[1]) : null;
}

new Page().start();
