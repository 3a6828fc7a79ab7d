// What the worker on this machine tells (scheduled tasks, late deliveries), if it tells anything.

import { byId, h } from "./dom.js";
import { scheduled } from "./scheduled.js";

const EVERY_MS = 30_000;

export class Extras {
  constructor(api) {
    this.api = api;
    setInterval(() => document.visibilityState === "visible" && this.refresh(), EVERY_MS);
  }

  async refresh() {
    if (document.body.dataset.screen !== "rooms") return;
    try {
      this.#draw(await this.api.extras());
    } catch {
      // Not worth a word: the rooms say it if the relay is away.
    }
  }

  #draw(extras) {
    const text = JSON.stringify(extras);
    if (text === this.drawn) return;
    this.drawn = text;
    const sections = Object.entries(extras ?? {}).filter(([, value]) => !isEmpty(value));
    const box = byId("extras");
    box.hidden = sections.length === 0;
    const folded = new Set([...box.querySelectorAll("details:not([open])")].map((part) => part.dataset.name));
    box.replaceChildren(...sections.map(([name, value]) => h("details", { open: !folded.has(name), data: { name } }, h("summary", {}, words(name)), name === "scheduled" ? scheduled(value) : list(value))));
  }
}

const isEmpty = (value) => value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);

const words = (name) => {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
};

function list(value) {
  const rows = Array.isArray(value) ? value : [value];
  return h("ul", { class: "extras-list" }, rows.map((row) => h("li", {}, ...cells(row))));
}

function cells(row) {
  if (row === null || typeof row !== "object") return [String(row)];
  const { title, name, ...rest } = row;
  const head = title ?? name;
  const details = Object.entries(rest).filter(([, value]) => !isEmpty(value));
  return [
    head && h("span", { class: "extras-title" }, String(head)),
    ...details.map(([key, value]) => h("span", { class: "quiet" }, `${words(key)}: ${typeof value === "object" ? JSON.stringify(value) : value}`)),
  ].filter(Boolean);
}
