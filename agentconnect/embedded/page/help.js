// The keys, in a dialog.

import { h } from "./dom.js";
import { openDialog } from "./dialog.js";

const KEYS = [
  ["Enter", "Send the message"],
  ["Shift + Enter", "Start a new line"],
  ["@ or !", "Mention somebody, call an agent"],
  ["↑ in an empty field", "Go to the messages; ↑ and ↓ walk through them"],
  ["R, E on a message", "Reply to it, react to it"],
  ["Del on your message", "Remove it"],
  ["Esc", "Leave out the reply, come back to writing, close a panel"],
  ["Alt + ↑ / ↓", "The room before or after"],
  ["Ctrl + /", "This help"],
];

export function openHelp() {
  openDialog({
    title: "Help and keys",
    body: [
      h("p", {}, "In a room with one agent every message goes to it. With several, begin with ! and a name, mention one with @, or reply to it."),
      h("p", {}, "An agent works for whoever registered it and for those they trust. Ask the concierge in a direct message to trust somebody."),
      h("dl", { class: "keys-list" }, KEYS.map(([keys, words]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, words)]).flat()),
    ],
  });
}
