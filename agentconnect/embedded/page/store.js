// What the page knows, and who wants to hear of a change. Views read it; only this file writes it.

import { Timeline } from "./timeline-data.js";

export class Store {
  constructor() {
    this.me = null;
    this.domain = "";
    this.rooms = new Map();
    this.agents = [];
    this.people = [];
    this.limits = { upload_bytes: 25 * 1024 * 1024 };
    this.timelines = new Map();
    this.current = null;
    this.linkUp = true;
    this.listeners = new Map();
  }

  /** Topics: "rooms", "current", "link", and "timeline" with `{roomId, change, message}`. */
  on(topic, listener) {
    if (!this.listeners.has(topic)) this.listeners.set(topic, []);
    this.listeners.get(topic).push(listener);
  }

  emit(topic, detail) {
    for (const listener of this.listeners.get(topic) ?? []) listener(detail);
  }

  takeState(state) {
    this.me = state.me;
    this.domain = state.domain;
    this.concierge = state.concierge || `@sutando-concierge:${state.domain}`;
    this.rooms = new Map(state.rooms.map((room) => [room.room_id, room]));
    this.agents = state.agents ?? [];
    this.people = state.people ?? [];
    this.limits = state.limits ?? this.limits;
    for (const roomId of [...this.timelines.keys()]) {
      if (!this.rooms.has(roomId)) this.timelines.delete(roomId);
    }
    if (this.current !== null && !this.rooms.has(this.current)) this.open(null);
    this.emit("rooms");
  }

  setPresence(userId, online) {
    const everywhere = [...this.rooms.values()].flatMap((room) => room.members);
    for (const one of [...everywhere, ...this.agents]) if (one.user_id === userId) one.online = online;
    this.emit("rooms");
  }

  get room() {
    return this.rooms.get(this.current) ?? null;
  }

  timeline(roomId) {
    if (!this.timelines.has(roomId)) this.timelines.set(roomId, new Timeline());
    return this.timelines.get(roomId);
  }

  open(roomId) {
    this.current = roomId;
    this.emit("current");
  }

  setLink(up) {
    if (this.linkUp === up) return;
    this.linkUp = up;
    this.emit("link");
  }

  /** A message that came over the wire, new or changed. */
  take(roomId, message) {
    const room = this.rooms.get(roomId);
    const change = this.timelines.get(roomId)?.take(message) ?? "unseen";
    const known = change === "changed" || change === "same";
    if (room && !known && message.ts > room.last_ts) room.last_ts = message.ts;
    if (change !== "same") this.emit("timeline", { roomId, change, message });
    return change;
  }

  countUnread(roomId) {
    const room = this.rooms.get(roomId);
    if (!room) return;
    room.unread += 1;
    this.emit("rooms");
  }

  markRead(roomId) {
    const room = this.rooms.get(roomId);
    if (!room || room.unread === 0) return;
    room.unread = 0;
    this.emit("rooms");
  }

  async refreshTimeline(roomId, request) {
    const timeline = this.timeline(roomId);
    await timeline.fetch(request, (page) => timeline.refresh(page.messages, page.more));
    this.emit("timeline", { roomId, change: "reset" });
  }

  async prependTimeline(roomId, request) {
    const timeline = this.timeline(roomId);
    await timeline.fetch(request, (page) => timeline.prepend(page.messages, page.more));
    this.emit("timeline", { roomId, change: "prepend" });
  }

  /** What a person or agent is called; the id's own name where nobody told. */
  nameOf(userId, roomId = this.current) {
    const member = this.rooms.get(roomId)?.members.find((one) => one.user_id === userId);
    const anyone = member ?? [...this.agents, ...this.people].find((one) => one.user_id === userId);
    return anyone?.name || userId.replace(/^@/, "").split(":")[0];
  }

  memberOf(userId, roomId = this.current) {
    return this.rooms.get(roomId)?.members.find((one) => one.user_id === userId) ?? null;
  }

  agentsIn(room) {
    return room.members.filter((member) => member.kind === "agent");
  }
}
