// Who is who in a room and at which tier, and what a moderator may change.

import { byId, h, icon, iconButton } from "./dom.js";
import { avatar } from "./message.js";
import { presenceDot, roomName } from "./rooms.js";
import { badgeOf, plural } from "./words.js";

const RANK = { agent: 0, concierge: 1, person: 2 };

export class PanelView {
  /** `actions`: addPerson(), addAgent(), removeMember(member), retireAgent(member), newLink(member), message(userId), rename(), setFilter(on), close(). */
  constructor(store, actions) {
    Object.assign(this, { store, actions });
    this.element = byId("panel");
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && actions.close());
    store.on("rooms", () => this.draw());
    store.on("current", () => this.draw());
  }

  get isOpen() {
    return !this.element.hidden;
  }

  toggle(open) {
    this.element.hidden = !open;
    document.body.classList.toggle("with-panel", open);
    this.draw();
    if (open && matchMedia("(max-width: 1080px)").matches) this.element.querySelector("button")?.focus();
  }

  draw() {
    const { room } = this.store;
    if (this.element.hidden || !room) return;
    const focused = document.activeElement?.id;
    const scroll = this.element.scrollTop;
    const members = [...room.members].sort((a, b) => RANK[a.kind] - RANK[b.kind] || a.name.localeCompare(b.name));
    this.element.replaceChildren(
      h("header", { class: "panel-head" }, h("h2", {}, roomName(room, this.store)),
        iconButton("close", "Close this panel", { on: { click: this.actions.close } })),
      h("section", { class: "panel-section", "aria-labelledby": "members-title" },
        h("h3", { id: "members-title" }, plural(members.length, "member")),
        h("ul", { class: "members" }, members.map((member) => this.#member(member, room))),
        room.moderator && room.kind !== "dm" && h("div", { class: "panel-buttons" },
          h("button", { type: "button", id: "add-person", class: "button", on: { click: this.actions.addPerson } }, icon("plus"), "Add a person"),
          h("button", { type: "button", id: "add-agent", class: "button", on: { click: this.actions.addAgent } }, icon("plus"), "Add an agent"))),
      this.#settings(room));
    this.element.scrollTop = scroll;
    if (focused) byId(focused)?.focus();
  }

  #member(member, room) {
    const own = member.user_id === this.store.me.user_id;
    const badge = badgeOf(member);
    const mine = this.store.agents.some((agent) => agent.user_id === member.user_id && agent.mine);
    const mayRemove = room.moderator && room.kind !== "dm" && !own && member.kind !== "concierge";
    return h("li", { class: "member" },
      h("span", { class: "with-dot" }, avatar(member.user_id, member.name, member.kind !== "person"), presenceDot(member)),
      h("span", { class: "member-words" },
        h("span", { class: "member-name" }, member.name, own && h("span", { class: "quiet" }, " (you)")),
        h("span", { class: "quiet", title: member.user_id }, member.user_id),
        member.kind !== "concierge" && h("span", { class: "unseen" }, member.online ? "online" : "away")),
      badge && h("span", { class: `badge ${badge}` }, badge),
      h("span", { class: "member-actions" },
        !own && room.kind !== "dm" && iconButton("chat", `Write to ${member.name} directly`, { on: { click: () => this.actions.message(member.user_id) } }),
        this.store.me.admin && member.kind === "person" && !own
          && iconButton("key", `Make a new link for ${member.name}`, { on: { click: () => this.actions.newLink(member) } }),
        mayRemove && iconButton("close", `Take ${member.name} out of this room`, { on: { click: () => this.actions.removeMember(member) } }),
        mine && iconButton("trash", `Retire ${member.name}`, { on: { click: () => this.actions.retireAgent(member) } })));
  }

  #settings(room) {
    if (room.kind === "dm") return h("span");
    const toggle = h("input", { type: "checkbox", id: "filter", role: "switch", checked: room.sensitive_data_filter, disabled: !room.moderator,
      on: { change: (event) => this.actions.setFilter(event.target) } });
    return h("section", { class: "panel-section", "aria-labelledby": "settings-title" },
      h("h3", { id: "settings-title" }, "Room"),
      h("label", { class: "switch-row", for: "filter" }, icon("shield"),
        h("span", {}, h("span", {}, "Sensitive-data filter"),
          h("span", { class: "quiet" }, "Agents hold back what looks like a key or a password when they answer collaborators.")),
        toggle),
      room.moderator
        ? h("button", { type: "button", id: "rename", class: "button", on: { click: this.actions.rename } }, "Rename this room")
        : h("p", { class: "quiet" }, "Moderators of this room can change this."));
  }
}
