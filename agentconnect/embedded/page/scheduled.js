// Scheduled tasks of the worker on this machine: what runs when, and what came of the last run.

import { h, icon } from "./dom.js";
import { clock, dayName, fullTime } from "./words.js";

export function scheduled(tasks) {
  const several = new Set(tasks.map((task) => task.workspace)).size > 1;
  return h("ul", { class: "extras-list" }, tasks.map((task) => h("li", { class: "scheduled" },
    h("span", { class: "extras-title", dir: "auto" }, task.failed && icon("warn"), task.title),
    several && line("In ", task.workspace),
    next(task),
    task.result && line(task.last_at !== null && when(task.last_at), task.last_at !== null && ": ", task.result),
    (task.delivery || task.to) && line("To ", task.to, task.delivery && `: ${task.delivery}`))));
}

function next(task) {
  if (!task.enabled) return line("Switched off.");
  if (task.next_at !== null) return line("Next: ", when(task.next_at), task.once && ", once", h("span", { class: "cron" }, ` (${task.cron})`));
  return task.once && task.result && line("Once: it will not run again.");
}

const line = (...parts) => h("span", { class: "quiet" }, ...parts);

const when = (ts) => h("time", { datetime: new Date(ts).toISOString(), title: fullTime(ts) }, `${dayName(ts)}, ${clock(ts)}`);
