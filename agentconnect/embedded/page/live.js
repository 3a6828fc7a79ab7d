// The event stream: reads it, notices silence, comes back by itself, resumes at the last cursor.
// Read with fetch rather than EventSource: its keep-alive comments show that the wire is alive.

const SILENCE_MS = 40_000; // the relay says something every 15 s
const PAUSES_MS = [250, 500, 1000, 2000, 4000];

export class Live {
  /** `onEvent(type, data)` per event; `onLink(up)` when the wire comes and goes. */
  constructor(api, { onEvent, onLink, onReset }) {
    this.api = api;
    this.onEvent = onEvent;
    this.onLink = onLink;
    this.onReset = onReset;
    this.cursor = 0;
    this.life = null; // one object per start: a loop whose object is not this one any more ends
    window.addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#hurry());
  }

  async start(cursor) {
    this.cursor = cursor;
    if (this.life) return;
    const life = {};
    this.life = life;
    let failures = 0;
    while (this.life === life) {
      const opened = await this.#once();
      if (this.life !== life) return;
      failures = opened ? 0 : failures + 1;
      this.onLink(false);
      await this.#pause(PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] * (0.8 + Math.random() * 0.4));
    }
  }

  stop() {
    this.life = null;
    this.abort?.abort();
    this.wake?.();
  }

  /** One connection until it ends, for whatever reason. True if it was open at all. */
  async #once() {
    const abort = new AbortController();
    this.abort = abort;
    let opened = false;
    try {
      const response = await this.api.events(this.cursor, abort.signal);
      opened = true;
      this.onLink(true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      await this.#read(reader, abort);
    } catch (error) {
      if (error.status === 401) this.life = null;
    } finally {
      clearTimeout(this.watchdog);
      abort.abort();
    }
    return opened;
  }

  async #read(reader, abort) {
    let text = "";
    for (;;) {
      clearTimeout(this.watchdog);
      this.watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
      const { value, done } = await reader.read();
      if (done) return;
      text += value.replaceAll("\r\n", "\n");
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const frame = text.slice(0, end);
        text = text.slice(end + 2);
        if (!(await this.#frame(frame))) return;
      }
    }
  }

  /** Handles one frame; false when the stream has to be opened anew. */
  async #frame(frame) {
    let type = "message";
    let id = "";
    const data = [];
    for (const line of frame.split("\n")) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      const value = line.slice(colon + 1).replace(/^ /, "");
      if (line.startsWith("event:")) type = value;
      else if (line.startsWith("id:")) id = value;
      else if (line.startsWith("data:")) data.push(value);
    }
    if (type === "reset") {
      this.cursor = await this.onReset();
      return false;
    }
    if (data.length > 0) this.#handOver(type, data.join("\n"));
    if (/^\d+$/.test(id)) this.cursor = Number(id);
    return true;
  }

  #handOver(type, text) {
    let data;
    try {
      data = JSON.parse(text);
    } catch {
      return; // one broken frame must not end the stream: it would come again and again
    }
    this.onEvent(type, data);
  }

  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #hurry() {
    this.wake?.();
  }
}
