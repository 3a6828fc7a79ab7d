// Completion of @names and !agents while writing.

import { h } from "./dom.js";
import { avatar } from "./message.js";
import { badgeOf, localpart } from "./words.js";

const SHOWN = 6;

export class Completion {
  constructor(store, field) {
    Object.assign(this, { store, field });
    this.options = [];
    this.at = 0;
    this.list = h("ul", { id: "completion", class: "completion", role: "listbox", "aria-label": "Names", hidden: true });
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", "completion");
    field.addEventListener("input", () => this.#look());
    field.addEventListener("click", () => this.#look());
    // A press on a name takes the focus away for a moment; whoever is back by then keeps the list.
    field.addEventListener("blur", () => setTimeout(() => document.activeElement !== field && this.close(), 150));
  }

  get open() {
    return !this.list.hidden;
  }

  close() {
    this.list.hidden = true;
    this.field.removeAttribute("aria-activedescendant");
  }

  #look() {
    const before = this.field.value.slice(0, this.field.selectionStart);
    const match = /(?:^|\s)([@!])([\w.-]*)$/.exec(before);
    if (!match || !this.store.room) return this.close();
    const [, sign, typed] = match;
    this.start = before.length - typed.length - 1;
    this.options = this.#fitting(sign, typed.toLowerCase());
    this.sign = sign;
    this.at = 0;
    return this.options.length > 0 ? this.#draw() : this.close();
  }

  #fitting(sign, typed) {
    const { room, people, me } = this.store;
    // The concierge is told about people who are elsewhere.
    const toConcierge = room.members.some((member) => member.kind === "concierge");
    const members = toConcierge ? people.map((one) => ({ ...one, kind: "person", tier: "" })) : room.members;
    return members
      .filter((member) => member.user_id !== me.user_id)
      .filter((member) => sign === "@" || member.kind === "agent")
      .filter((member) => localpart(member.user_id).toLowerCase().includes(typed) || member.name.toLowerCase().includes(typed))
      .sort((a, b) => Number(b.kind === "agent") - Number(a.kind === "agent") || a.name.localeCompare(b.name))
      .slice(0, SHOWN);
  }

  #draw() {
    this.list.replaceChildren(...this.options.map((member, index) => h("li", {
      id: `completion-${index}`, role: "option", "aria-selected": index === this.at ? "true" : "false",
      on: { mousedown: (event) => (event.preventDefault(), this.#take(member)) },
    }, avatar(member.user_id, member.name, member.kind !== "person"), h("span", { class: "completion-name" }, member.name),
      h("span", { class: "quiet" }, this.sign === "!" ? `!${localpart(member.user_id)}` : member.user_id),
      badgeOf(member) && h("span", { class: `badge ${badgeOf(member)}` }, badgeOf(member)))));
    this.list.hidden = false;
    this.field.setAttribute("aria-activedescendant", `completion-${this.at}`);
  }

  #take(member) {
    const { field } = this;
    const name = this.sign === "!" ? `!${localpart(member.user_id)} ` : `${member.user_id} `;
    field.setRangeText(name, this.start, field.selectionStart, "end");
    this.close();
    field.focus();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** True if the key was for the list. */
  key(event) {
    if (!this.open) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.at = (this.at + (event.key === "ArrowDown" ? 1 : this.options.length - 1)) % this.options.length;
      this.#draw();
    } else if (event.key === "Enter" || event.key === "Tab") {
      this.#take(this.options[this.at]);
    } else if (event.key === "Escape") {
      this.close();
    } else {
      return false;
    }
    event.preventDefault();
    return true;
  }
}
