// One room's messages as data: in order, each once, whichever way they came.

export class Timeline {
  constructor() {
    this.messages = [];
    this.byId = new Map();
    this.more = false;
    this.loaded = false;
    this.fetches = new Set(); // per fetch under way: what the wire brought meanwhile
    this.steps = new Map(); // event id → step titles seen while the message was running
  }

  /**
   * Fetches a page and lets `use` take it in. The answer may be older than what the wire brought
   * while it was on its way, so that is put in once more afterwards.
   */
  async fetch(request, use) {
    const meanwhile = [];
    this.fetches.add(meanwhile);
    try {
      use(await request);
      for (const message of meanwhile) this.put(message);
    } finally {
      this.fetches.delete(meanwhile);
    }
  }

  /** A message from the wire: put in if the room is loaded, remembered for fetches under way. */
  take(message) {
    for (const meanwhile of this.fetches) meanwhile.push(message);
    return this.loaded ? this.put(message) : "unseen";
  }

  /** The newest page, after a (re)load: what is older and known already stays. */
  refresh(page, more) {
    const oldest = page.length > 0 ? page[0].seq : 0;
    const kept = this.#joins(page) ? this.messages.filter((message) => message.seq < oldest) : [];
    const keptMore = this.more;
    this.messages = [];
    this.byId.clear();
    for (const message of [...kept, ...page]) this.put(message);
    this.more = kept.length > 0 ? keptMore : more;
    this.loaded = true;
  }

  /** Whether the page overlaps what is known; if not, something between the two may be missing. */
  #joins(page) {
    return page.some((message) => this.byId.has(message.event_id));
  }

  prepend(page, more) {
    for (const message of page) this.put(message);
    this.more = more;
  }

  /** Adds or replaces one message; says which: "added", "changed" or "same". */
  put(message) {
    const known = this.byId.get(message.event_id);
    this.#noteStep(message);
    this.byId.set(message.event_id, message);
    if (known) {
      this.messages[this.messages.indexOf(known)] = message;
      return JSON.stringify(known) === JSON.stringify(message) ? "same" : "changed";
    }
    let at = this.messages.length;
    while (at > 0 && this.messages[at - 1].seq > message.seq) at -= 1;
    this.messages.splice(at, 0, message);
    return "added";
  }

  get last() {
    return this.messages.at(-1) ?? null;
  }

  #noteStep(message) {
    if (!message.pending) {
      this.steps.delete(message.event_id);
      return;
    }
    let seen = this.steps.get(message.event_id);
    if (!seen) { // the relay remembers what was shown before this page was there
      seen = [];
      for (const body of message.steps ?? []) noteStep(seen, body);
      this.steps.set(message.event_id, seen);
    }
    noteStep(seen, message.body);
  }
}

function noteStep(seen, body) {
  const { step } = liveParts(body);
  if (step && seen.at(-1) !== step) seen.push(step);
}

/** A running message in its parts: the placeholder's words and the step under them. */
export function liveParts(body) {
  const [first, ...rest] = body.split("\n");
  return {
    lead: first.replace(/^\u23f3\ufe0f?\s*/u, "").trim(),
    step: rest.join("\n").trim().replace(/\s*\(step \d+\)$/, ""),
  };
}

/** Whether a message is still the agent's placeholder, with or without a step under it. */
export const isRunning = (message) => Boolean(message.pending) && /^\u23f3/u.test(message.body);
