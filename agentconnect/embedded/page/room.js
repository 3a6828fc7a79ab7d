// The open room: its head, its messages, its composer.

import { byId, h, icon, iconButton } from "./dom.js";
import { roomName } from "./rooms.js";
import { plural } from "./words.js";

export class RoomView {
  /** `actions`: back(), panel(). */
  constructor(store, timeline, composer, actions) {
    Object.assign(this, { store, timeline, composer });
    this.title = h("h2", { id: "room-name" });
    this.subtitle = h("span", { class: "room-sub" });
    this.members = h("button", { type: "button", class: "button members-button", "aria-controls": "panel", "aria-expanded": "false", on: { click: actions.panel } });
    this.element = byId("room");
    this.content = h("div", { class: "room-content" },
      h("header", { class: "room-head" },
        iconButton("back", "Back to the rooms", { class: "icon-button back", on: { click: actions.back } }),
        h("div", { class: "room-names" }, this.title, this.subtitle), this.members),
      timeline.element, composer.element,
      h("div", { class: "drop-hint", "aria-hidden": "true" }, icon("clip"), h("span", {}, "Drop files to add them")));
    this.nothing = h("div", { class: "empty" }, h("h2", {}, "Pick a room"), h("p", {}, "Your rooms are in the list. None there yet? Press + beside Rooms: name one and tick the agents that work in it."));
    this.element.append(this.content, this.nothing);
    composer.acceptDrops(this.element);
    store.on("rooms", () => this.draw());
  }

  show(roomId) {
    this.draw();
    if (!roomId) return;
    this.composer.show(roomId);
    this.timeline.show(roomId);
  }

  draw() {
    const { room } = this.store;
    this.content.hidden = !room;
    this.nothing.hidden = Boolean(room);
    if (!room) return;
    this.title.textContent = roomName(room, this.store);
    const agents = this.store.agentsIn(room);
    const away = agents.filter((agent) => !agent.online);
    this.subtitle.textContent = away.length > 0 && agents.length > 0
      ? `${away.map((agent) => agent.name).join(", ")} ${away.length === 1 ? "is" : "are"} away; messages wait`
      : "";
    const label = plural(room.members.length, "member");
    this.members.replaceChildren(icon("people"), h("span", { "aria-hidden": "true" }, String(room.members.length)));
    this.members.setAttribute("aria-label", `${label}, show who is here`);
    this.members.title = label;
  }

  panelOpen(open) {
    this.members.setAttribute("aria-expanded", String(open));
  }
}
