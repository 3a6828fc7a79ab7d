// Every sentence of the page that is used in more than one place, and how times and sizes read.

export const AWAY = "The relay cannot be reached. Whatever you write is kept and goes out when it is back.";
export const SIGNED_OUT = "This browser is not signed in here any more. Open your own link again.";

const KIND_OF_STATUS = {
  0: "The relay cannot be reached right now. Please try again in a moment.",
  400: "The relay did not understand that. Please check it and try again.",
  401: SIGNED_OUT,
  403: "That is for a moderator of this room to do.",
  404: "That is not here (any more).",
  409: "That exists already.",
  413: "That file is too big to send here.",
  429: "That was a little fast. It will work again in a moment.",
};

export const sentenceFor = (status) =>
  KIND_OF_STATUS[status] ?? (status >= 500 ? "The relay had a problem with that. Please try again." : "That did not work.");

export const TIERS = {
  owner: ["Owner", "Your agents work for them as for you, in every room you share."],
  collaborator: ["Collaborator", "May ask agents of owners who allow it; everything else is refused politely."],
  guest: ["Guest", "Reads and writes in the room; agents decline their requests."],
};

export const badgeOf = (member) => {
  if (member.kind === "agent") return "agent";
  if (member.kind === "concierge") return "concierge";
  return member.tier;
};

export const localpart = (userId) => userId.replace(/^@/, "").split(":")[0];

const timeOnly = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayOnly = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const dayYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export const clock = (ts) => timeOnly.format(ts);
/** Without AM or PM, for the narrow margin beside a message. */
export const shortClock = (ts) => timeOnly.formatToParts(ts).filter((part) => part.type !== "dayPeriod")
  .map((part) => part.value).join("").trim();
export const fullTime = (ts) => whole.format(ts);

export const dayKey = (ts) => new Date(ts).toDateString();

export function dayName(ts, now = Date.now()) {
  if (dayKey(ts) === dayKey(now)) return "Today";
  if (dayKey(ts) === dayKey(now - 86_400_000)) return "Yesterday";
  return (new Date(ts).getFullYear() === new Date(now).getFullYear() ? dayOnly : dayYear).format(ts);
}

export function sizeOf(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${Math.round(bytes / 1000)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
