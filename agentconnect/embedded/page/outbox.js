// Messages on their way: shown at once, sent in order, repeated until the relay has them.
// Each carries a `txn` of its own and is repeated unchanged, so the relay never posts it twice.

import { kept } from "./kept.js";

const PAUSES_MS = [500, 1000, 2000, 4000, 8000];

export class Outbox {
  constructor(api, store) {
    this.api = api;
    this.store = store;
    this.entries = [];
    this.working = new Set();
    store.on("link", () => store.linkUp && this.#wakeAll());
  }

  /** Takes up what an earlier page left unsent (texts only: a file cannot be kept). */
  resume() {
    const prefix = this.#key("");
    this.entries = this.entries.filter((entry) => entry.file);
    for (const entry of kept.all(prefix)) this.entries.push({ ...entry, state: "waiting" });
    this.entries.sort((a, b) => a.ts - b.ts);
    for (const entry of this.entries) this.#work(entry.roomId);
  }

  #key(txn) {
    return `out.${this.store.me.user_id}.${txn}`;
  }

  sendText(roomId, body, replyTo = null) {
    const entry = this.#entry({ roomId, body, replyTo });
    kept.set(this.#key(entry.txn), { txn: entry.txn, roomId, body, replyTo, ts: entry.ts });
    this.#add(entry);
  }

  sendFile(roomId, file, name, caption) {
    const url = /^image\//.test(file.type) ? URL.createObjectURL(file) : "";
    this.#add(this.#entry({ roomId, body: caption, file, name, url, progress: 0 }));
  }

  #entry(fields) {
    return { txn: crypto.randomUUID?.() ?? randomId(), ts: Date.now(), state: "waiting", eventId: "", tried: false, ...fields };
  }

  #add(entry) {
    this.entries.push(entry);
    this.#changed(entry, "local");
    this.#work(entry.roomId);
  }

  /** What has to be drawn below the room's messages. */
  inRoom(roomId) {
    return this.entries.filter((entry) => entry.roomId === roomId && !this.#isShown(entry));
  }

  get holdsFiles() {
    return this.entries.some((entry) => entry.file && !this.#isShown(entry));
  }

  /** Whether the message it stands for is in the list, however that came there. */
  #isShown(entry) {
    return entry.shown || this.#isListed(entry);
  }

  #isListed(entry) {
    return entry.eventId !== "" && this.store.timeline(entry.roomId).byId.has(entry.eventId);
  }

  retry(entry) {
    entry.state = "waiting";
    this.#changed(entry);
    this.#work(entry.roomId);
  }

  discard(entry) {
    this.#forget(entry);
    this.#changed(entry);
  }

  /**
   * One of our messages came back over the wire: what stood for it is not drawn any more. It may
   * come before the answer to its own POST; the entry then stays in the queue until that is there.
   */
  adopt(roomId, message) {
    const fits = (entry) => entry.roomId === roomId && !entry.shown
      && (entry.eventId ? entry.eventId === message.event_id : entry.tried && sameContent(entry, message));
    const entry = this.entries.find((one) => one.eventId === message.event_id && fits(one)) ?? this.entries.find(fits);
    if (!entry) return;
    entry.shown = true;
    if (entry.state === "sent") this.#forget(entry);
  }

  /** Lets go of what was sent and came into the list with a page of messages. */
  tidy(roomId) {
    const listed = this.entries.filter((entry) => entry.roomId === roomId && this.#isListed(entry));
    for (const entry of listed) this.#forget(entry);
  }

  #forget(entry) {
    this.entries = this.entries.filter((one) => one !== entry);
    kept.drop(this.#key(entry.txn));
    if (entry.url) URL.revokeObjectURL(entry.url);
  }

  /** One worker per room, so that messages arrive in the order they were written. */
  async #work(roomId) {
    if (this.working.has(roomId)) return;
    this.working.add(roomId);
    try {
      for (let failures = 0; ;) {
        const entry = this.entries.find((one) => one.roomId === roomId && one.state === "waiting");
        if (!entry) return;
        const done = await this.#attempt(entry);
        failures = done ? 0 : failures + 1;
        if (!done) await this.#pause(PAUSES_MS[Math.min(failures - 1, PAUSES_MS.length - 1)]);
      }
    } finally {
      this.working.delete(roomId);
    }
  }

  /** True when there is nothing more to repeat: sent, or refused for good. */
  async #attempt(entry) {
    entry.tried = true;
    try {
      const answer = await this.#post(entry);
      entry.eventId = answer.event_id;
      entry.state = "sent";
      kept.drop(this.#key(entry.txn));
      if (this.#isShown(entry)) this.#forget(entry);
    } catch (error) {
      entry.tries = (entry.tries ?? 0) + 1;
      if (error.passing || error.status === 401) {
        this.#changed(entry);
        return false;
      }
      entry.state = "failed";
      entry.problem = error.message;
    }
    this.#changed(entry);
    return true;
  }

  #post(entry) {
    if (!entry.file) {
      const message = { body: entry.body, txn: entry.txn };
      if (entry.replyTo) message.reply_to = entry.replyTo;
      return this.api.send(entry.roomId, message);
    }
    return this.api.upload(entry.roomId, { ...entry, caption: entry.body }, (part) => {
      entry.progress = part;
      this.#changed(entry, "progress");
    });
  }

  #changed(entry, change = "outbox") {
    this.store.emit("timeline", { roomId: entry.roomId, change, entry });
  }

  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wakers = [...(this.wakers ?? []), () => (clearTimeout(timer), resolve())];
    });
  }

  #wakeAll() {
    const wakers = this.wakers ?? [];
    this.wakers = [];
    for (const wake of wakers) wake();
  }
}

const sameContent = (entry, message) => entry.file
  ? message.file !== null && message.file.size === entry.file.size
  : message.body === entry.body;

// Without a secure origin (a relay bound to a plain LAN address) randomUUID does not exist.
const randomId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
