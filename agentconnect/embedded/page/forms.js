// The dialogs that add, remove and make: people, agents, rooms, direct messages.

import { h } from "./dom.js";
import { confirmDialog, openDialog, openForm } from "./dialog.js";
import { avatar, copyButton } from "./message.js";
import { TIERS } from "./words.js";

const NEW = "";

const field = (label, control, hint = "") => h("label", { class: "field" }, h("span", {}, label), control, hint && h("span", { class: "quiet" }, hint));

const choice = (name, options) => h("select", { name }, options.map(([value, words]) => h("option", { value }, words)));

function tierChoice() {
  return h("fieldset", { class: "tiers" }, h("legend", {}, "Tier"), Object.entries(TIERS).map(([tier, [name, words]]) =>
    h("label", { class: "tier" }, h("input", { type: "radio", name: "tier", value: tier, checked: tier === "guest" }),
      h("span", {}, h("span", {}, name), h("span", { class: "quiet" }, words)))));
}

/** Something that is shown this once: a link, a token, a command. */
function once(label, text) {
  return h("div", { class: "once" }, h("span", { class: "once-label" }, label),
    h("div", { class: "once-row" }, h("code", { tabindex: 0 }, text), copyButton(`Copy: ${label}`, () => text)));
}

export class Forms {
  /** `refresh()` fetches the state again after a change. */
  constructor(api, store, { refresh, open }) {
    Object.assign(this, { api, store, refresh, open });
  }

  addPerson = () => {
    const { room } = this.store;
    const inside = new Set(room.members.map((member) => member.user_id));
    const known = this.store.people.filter((person) => !inside.has(person.user_id));
    const name = h("input", { name: "name", required: true, maxlength: 60, autocomplete: "off", placeholder: "Their name" });
    const who = choice("who", [[NEW, "Somebody new"], ...known.map((person) => [person.user_id, `${person.name} (${person.user_id})`])]);
    const nameField = field("Name", name);
    who.addEventListener("change", () => {
      nameField.hidden = who.value !== NEW;
      name.required = who.value === NEW;
    });
    openForm({
      title: "Add a person",
      submit: "Add",
      fields: [known.length > 0 && field("Who", who), nameField, tierChoice()].filter(Boolean),
      onSubmit: async (data) => {
        const member = { tier: data.get("tier") };
        if (data.get("who")) member.user_id = data.get("who");
        else member.name = data.get("name").trim();
        const answer = await this.api.addMember(room.room_id, member);
        await this.refresh();
        return answer.link ? personResult(answer, data.get("name")) : undefined;
      },
    });
  };

  addAgent = () => {
    const { room } = this.store;
    const inside = new Set(room.members.map((member) => member.user_id));
    const known = this.store.agents.filter((agent) => !inside.has(agent.user_id));
    const name = h("input", { name: "name", required: true, maxlength: 60, autocomplete: "off", placeholder: "helper" });
    const nameField = field("Name", name, "People call it by ! and this name. Letters, digits, dots and dashes.");
    const which = choice("which", [[NEW, "A new agent"], ...known.map((agent) => [agent.user_id, `${agent.name} (${agent.user_id})`])]);
    which.addEventListener("change", () => {
      nameField.hidden = which.value !== NEW;
      name.required = which.value === NEW;
    });
    openForm({
      title: "Add an agent",
      submit: "Add",
      fields: [known.length > 0 && field("Which", which), nameField].filter(Boolean),
      onSubmit: async (data) => {
        const made = data.get("which") ? { user_id: data.get("which") } : await this.api.addAgent(data.get("name").trim());
        let problem = "";
        try {
          await this.api.addMember(room.room_id, { user_id: made.user_id, tier: "guest" });
        } catch (error) {
          if (!made.token) throw error;
          problem = error.message; // its token exists and is shown only now
        }
        await this.refresh();
        return made.token ? agentResult(made, problem) : undefined;
      },
    });
  };

  removeMessage = (message) => confirmDialog({
    title: "Remove this message?",
    text: "Its text and file are gone for everybody. An agent that is at it already goes on.",
    submit: "Remove",
    onConfirm: () => this.api.removeMessage(message.room_id, message.event_id),
  });

  newLink = (member) => openForm({
    title: `A new link for ${member.name}?`,
    submit: "Make a new link",
    danger: true,
    fields: [h("p", {}, "For somebody who lost theirs. The old link ends, and their browsers have to come in anew.")],
    onSubmit: async () => {
      const { link } = await this.api.newLink(member.user_id);
      return [h("p", {}, `This opens the page for ${member.name}; it is shown only now.`), once("Link", link)];
    },
  });

  removeMember = (member) => {
    const { room } = this.store;
    confirmDialog({
      title: `Take ${member.name} out?`,
      text: `${member.name} no longer sees this room. What they wrote stays.`,
      submit: "Take out",
      onConfirm: async () => {
        await this.api.removeMember(room.room_id, member.user_id);
        await this.refresh();
      },
    });
  };

  retireAgent = (member) => confirmDialog({
    title: `Retire ${member.name}?`,
    text: `Its token stops working at once, in every room, and the worker that uses it stops. This cannot be taken back.`,
    submit: "Retire",
    onConfirm: async () => {
      await this.api.removeAgent(member.user_id);
      await this.refresh();
    },
  });

  createRoom = () => openForm({
    title: "New room",
    submit: "Create",
    fields: [
      field("Name", h("input", { name: "name", required: true, maxlength: 80, autocomplete: "off", placeholder: "What it is about" })),
      this.store.agents.length > 0 && h("fieldset", { class: "tiers" }, h("legend", {}, "Agents in it"), this.store.agents.map((agent, index) =>
        h("label", { class: "tier" }, h("input", { type: "checkbox", name: "agents", value: agent.user_id, checked: index === 0 && agent.mine }),
          h("span", {}, h("span", {}, agent.name), h("span", { class: "quiet" }, agent.user_id))))),
    ].filter(Boolean),
    onSubmit: async (data) => {
      const answer = await this.api.createRoom(data.get("name").trim(), data.getAll("agents"));
      await this.refresh();
      if (answer.room_id) this.open(answer.room_id);
    },
  });

  rename = () => {
    const { room } = this.store;
    openForm({
      title: "Rename this room",
      submit: "Rename",
      fields: [field("Name", h("input", { name: "name", required: true, maxlength: 80, value: room.name, autocomplete: "off" }))],
      onSubmit: async (data) => {
        await this.api.settings(room.room_id, { name: data.get("name").trim() });
        await this.refresh();
      },
    });
  };

  startDm = () => {
    const { store } = this;
    const concierge = { user_id: store.concierge, name: "Concierge", kind: "concierge" };
    const others = [
      concierge,
      ...store.agents.map((agent) => ({ ...agent, kind: "agent" })),
      ...store.people.filter((person) => person.user_id !== store.me.user_id && person.user_id !== concierge.user_id)
        .map((person) => ({ ...person, kind: "person" })),
    ];
    const dialog = openDialog({
      title: "New direct message",
      body: [h("ul", { class: "choices" }, others.map((one) => h("li", {}, h("button", {
        type: "button", class: "room-row", on: { click: () => this.message(one.user_id).then(dialog.close) },
      }, avatar(one.user_id, one.name, one.kind !== "person"), h("span", { class: "room-title" }, one.name),
        one.kind !== "person" && h("span", { class: `badge ${one.kind}` }, one.kind)))))],
    });
  };

  /** Opens the direct message with somebody, new or old. */
  message = async (userId) => {
    const { room_id: roomId } = await this.api.dm(userId);
    await this.refresh();
    this.open(roomId);
  };
}

const personResult = (answer, name) => [
  h("p", {}, `${name} is in. Their own link opens this page for them; it is shown only now, so pass it on today.`),
  once("Link", answer.link),
];

const agentResult = (made, problem) => [
  h("p", {}, "Start its worker with this command on the machine where it shall work. Token and command are shown only now."),
  made.command && once("Command", made.command),
  once("Token", made.token),
  problem && h("p", { class: "problem" }, `It could not be brought into this room: ${problem}`),
].filter(Boolean);
