// Reactions on a message: the chips under it, and the small menu to put one.

import { h } from "./dom.js";

const OFFERED = [
  ["👍", "Thumbs up"], ["👎", "Thumbs down"], ["❤️", "Heart"], ["😄", "Laughing"], ["🎉", "Party"], ["👀", "Looking into it"],
];

/** The reactions of a message; one's own are pressed, and pressing toggles. */
export function reactionChips(message, store, onReact) {
  return h("ul", { class: "reactions", "aria-label": "Reactions" }, message.reactions.map(({ key, senders }) => {
    const names = senders.map((sender) => store.nameOf(sender, message.room_id)).join(", ");
    const own = senders.includes(store.me.user_id);
    return h("li", {}, h("button", { type: "button", class: "reaction", title: names, "aria-pressed": String(own), data: { key },
      tabindex: -1, on: { click: () => onReact(key, !own) } },
    h("span", { "aria-hidden": "true" }, key), senders.length > 1 && h("span", { class: "count", "aria-hidden": "true" }, String(senders.length)),
    h("span", { class: "unseen" }, `${key} by ${names}`)));
  }));
}

/** Opens the menu beside `anchor`; closes by itself, and gives the focus back to `back`. */
export function offerReactions(anchor, back, onReact) {
  document.querySelector(".react-menu")?.remove();
  const close = (focus = true) => {
    document.removeEventListener("pointerdown", outside, true);
    menu.remove();
    if (focus) back.focus();
  };
  const outside = (event) => menu.contains(event.target) || close(false);
  const menu = h("div", { class: "react-menu", role: "menu", "aria-label": "React with" }, OFFERED.map(([key, words]) =>
    h("button", { type: "button", role: "menuitem", "aria-label": words, title: words, tabindex: -1,
      on: { click: () => (close(), onReact(key)) } }, key)));
  menu.addEventListener("keydown", (event) => {
    event.stopPropagation(); // letters there are no commands to the message
    const buttons = [...menu.children];
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (to !== undefined) buttons.at(to % buttons.length).focus();
    else return;
    event.preventDefault();
  });
  anchor.append(menu);
  document.addEventListener("pointerdown", outside, true);
  menu.firstElementChild.focus();
}
