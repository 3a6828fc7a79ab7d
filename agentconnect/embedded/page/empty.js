// What a newcomer reads in a room without messages: what to type first.

import { h, icon } from "./dom.js";
import { localpart } from "./words.js";

const FIRST_WORDS = [
  "Hello! What can you do?",
  "List the files here",
  "Write a short note into hello.txt and send it to me",
];

export function emptyState(store, actions) {
  const room = store.room;
  if (!room) return h("p");
  const concierge = room.members.find((member) => member.kind === "concierge");
  if (concierge) {
    return frame("This is your line to the concierge",
      "Say here whom your agents may work for. It answers only you.",
      suggestions(["help", "trust @", "untrust @"], actions));
  }
  const agents = store.agentsIn(room);
  if (agents.length === 0) {
    const words = "Whatever you write reaches the people in this room. To have work done here, bring an agent in.";
    return frame("No agent here yet", words,
      room.moderator && h("button", { type: "button", class: "button primary", on: { click: actions.addAgent } }, icon("plus"), "Add an agent"));
  }
  const [agent] = agents;
  if (store.memberOf(store.me.user_id)?.tier === "guest") {
    return frame(`Welcome to ${room.name}`,
      `You are a guest here: ${agents.length === 1 ? agent.name : "the agents"} will decline what you ask, but everybody reads what you write.`);
  }
  const call = agents.length === 1 ? "" : `!${localpart(agent.user_id)} `;
  const words = agents.length === 1
    ? `Every message here goes to ${agent.name}. Write as you would to a colleague; drop a file in when it helps.`
    : `There are several agents here. Begin with ! and a name, or mention one with @, to say whom you mean.`;
  return frame(`Ask ${agent.name} something`, words, suggestions(FIRST_WORDS.map((one) => call + one), actions));
}

function frame(title, words, ...rest) {
  return h("section", { class: "empty" }, h("img", { src: "/page/static/mark.svg", alt: "", width: 44, height: 44 }),
    h("h2", {}, title), h("p", {}, words), ...rest);
}

function suggestions(texts, actions) {
  return h("ul", { class: "suggestions" }, texts.map((text) =>
    h("li", {}, h("button", { type: "button", class: "suggestion", on: { click: () => actions.suggest(text) } }, text))));
}
