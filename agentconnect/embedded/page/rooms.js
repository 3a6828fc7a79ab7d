// The list of rooms and direct messages, with unread marks; at its foot who one is here.

import { byId, h, iconButton } from "./dom.js";
import { avatar } from "./message.js";
import { kept } from "./kept.js";
import { plural } from "./words.js";

const THEMES = [["auto", "Colours: as the system"], ["light", "Colours: light"], ["dark", "Colours: dark"]];
const THEME_ICONS = { auto: "auto", light: "sun", dark: "moon" };

export class RoomsView {
  /** `actions`: open(roomId), createRoom(), startDm(), concierge(), help(), signOut(). */
  constructor(store, actions) {
    Object.assign(this, { store, actions });
    this.lists = h("div", { class: "room-lists" });
    this.foot = h("footer", { class: "me" });
    byId("sidebar").append(
      h("header", { class: "sidebar-head" }, h("img", { src: "/page/static/mark.svg", alt: "", width: 28, height: 28 }), h("h1", {}, "agentconnect")),
      this.lists, h("div", { id: "extras", class: "extras", hidden: true }), this.foot);
    byId("sidebar").addEventListener("keydown", (event) => this.#key(event));
    store.on("rooms", () => this.draw());
    store.on("current", () => this.draw());
    store.on("timeline", ({ change }) => (change === "added" || change === "unseen") && this.draw());
  }

  draw() {
    const focused = document.activeElement?.dataset?.room;
    const rooms = [...this.store.rooms.values()].sort((a, b) => b.last_ts - a.last_ts || a.name.localeCompare(b.name));
    const dms = rooms.filter((room) => room.kind === "dm");
    const hasConcierge = dms.some((room) => room.members.some((member) => member.kind === "concierge"));
    this.lists.replaceChildren(
      this.#section("Rooms", rooms.filter((room) => room.kind !== "dm").map((room) => this.#row(room)), "New room", this.actions.createRoom),
      this.#section("Direct messages", [
        ...dms.map((room) => this.#row(room)),
        !hasConcierge && h("li", {}, h("button", { type: "button", class: "room-row", on: { click: this.actions.concierge } },
          avatar(this.store.concierge, "Concierge", true), h("span", { class: "room-title" }, "Concierge"))),
      ].filter(Boolean), "New direct message", this.actions.startDm));
    this.#drawMe();
    this.#title(rooms);
    if (focused) this.lists.querySelector(`[data-room="${CSS.escape(focused)}"]`)?.focus();
  }

  #section(title, rows, addLabel, onAdd) {
    const id = `list-${title.replace(/\W/g, "").toLowerCase()}`;
    return h("section", { class: "room-section", "aria-labelledby": id },
      h("header", {}, h("h2", { id }, title), iconButton("plus", addLabel, { on: { click: onAdd } })),
      h("ul", {}, rows));
  }

  #row(room) {
    const current = room.room_id === this.store.current;
    const unread = room.unread > 0 && !current ? room.unread : 0;
    const partner = room.kind === "dm" ? room.members.find((member) => member.user_id !== this.store.me.user_id) : null;
    const mark = partner
      ? h("span", { class: "with-dot" }, avatar(partner.user_id, partner.name, partner.kind !== "person"), presenceDot(partner))
      : h("span", { class: "hash", "aria-hidden": "true" }, "#");
    return h("li", {}, h("button", {
      type: "button", class: `room-row${unread ? " unread" : ""}`, data: { room: room.room_id },
      "aria-current": current ? "page" : null, on: { click: () => this.actions.open(room.room_id) },
    }, mark, h("span", { class: "room-title" }, partner?.name || room.name),
      unread > 0 && h("span", { class: "count" }, h("span", { "aria-hidden": "true" }, unread > 99 ? "99+" : String(unread)),
        h("span", { class: "unseen" }, `, ${plural(unread, "unread message")}`))));
  }

  #drawMe() {
    const theme = kept.get("theme", "auto");
    const [, label] = THEMES.find(([name]) => name === theme) ?? THEMES[0];
    const toggle = iconButton(THEME_ICONS[theme] ?? "auto", label, { on: { click: () => this.#nextTheme() } });
    toggle.id = "theme-toggle";
    const focused = document.activeElement?.id === "theme-toggle";
    const { me } = this.store;
    this.foot.replaceChildren(avatar(me.user_id, me.name),
      h("span", { class: "me-name" }, h("span", {}, me.name), h("span", { class: "quiet", title: me.user_id }, me.user_id)),
      toggle,
      iconButton("help", "Help and keys", { on: { click: this.actions.help } }),
      iconButton("leave", "Sign out", { on: { click: this.actions.signOut } }));
    if (focused) toggle.focus();
  }

  #nextTheme() {
    const at = THEMES.findIndex(([name]) => name === kept.get("theme", "auto"));
    const [theme] = THEMES[(at + 1) % THEMES.length];
    if (theme === "auto") {
      kept.drop("theme");
      delete document.documentElement.dataset.theme;
    } else {
      kept.set("theme", theme);
      document.documentElement.dataset.theme = theme;
    }
    this.#drawMe();
  }

  #title(rooms) {
    const unread = rooms.reduce((sum, room) => sum + room.unread, 0);
    const name = this.store.room ? `${roomName(this.store.room, this.store)} · agentconnect` : "agentconnect";
    document.title = unread > 0 ? `(${unread}) ${name}` : name;
    const mark = unread > 0 ? "/page/static/mark-unread.svg" : "/page/static/mark.svg";
    if (!byId("favicon").href.endsWith(mark)) byId("favicon").href = mark;
  }

  #key(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const rows = [...this.lists.querySelectorAll(".room-row")];
    const at = rows.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    rows[(at + (event.key === "ArrowDown" ? 1 : rows.length - 1)) % rows.length].focus();
  }

  /** The room before or after the open one, in the order of the list. */
  neighbour(step) {
    const ids = [...this.lists.querySelectorAll("[data-room]")].map((row) => row.dataset.room);
    const at = ids.indexOf(this.store.current);
    return ids[(at + step + ids.length) % ids.length] ?? null;
  }
}

export function roomName(room, store) {
  if (room.kind !== "dm") return room.name;
  return room.members.find((member) => member.user_id !== store.me.user_id)?.name || room.name;
}

// The concierge is the relay itself: whoever can ask finds it there.
export const presenceDot = (member) => member.kind === "concierge" ? null : h("span", { class: `presence${member.online ? " online" : ""}`, title: member.online ? "online" : "away" });

