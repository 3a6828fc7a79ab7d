// The door: what somebody sees who is not signed in, and how they get in.

import { byId, h } from "./dom.js";

/** The token of a link like `/#k=…`, or of what was pasted; "" if there is none. */
export function tokenIn(text) {
  const match = /(?:^|#|&)k=([^&\s]+)/.exec(text);
  return match ? decoded(match[1]) : "";
}

/** What a part of an address says; a part that says nothing is taken as it stands. */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Takes the token out of the address bar, so that it is in no history and on no screenshot. */
export function clearAddress() {
  if (tokenIn(location.hash)) history.replaceState(null, "", location.pathname);
}

export function showGate(sentence, onToken) {
  const gate = byId("gate");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const input = h("input", { name: "link", type: "password", required: true, autocomplete: "off", placeholder: "Paste your link here" });
  const form = h("form", { class: "form" },
    h("label", { class: "field" }, h("span", {}, "Your link"), input), problem,
    h("button", { type: "submit", class: "button primary" }, "Come in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      await onToken(tokenIn(input.value) || input.value.trim());
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      input.select();
    }
  });
  gate.replaceChildren(h("div", { class: "gate-card" },
    h("img", { src: "/page/static/mark.svg", alt: "", width: 48, height: 48 }),
    h("h1", {}, "agentconnect"),
    h("p", {}, sentence),
    h("p", { class: "quiet" }, "Everybody here has a link of their own. The owner's is printed where agentconnect was started; yours came from whoever added you."),
    form));
  document.body.dataset.screen = "gate";
  gate.hidden = false;
  byId("shell").hidden = true;
  byId("boot").hidden = true;
  input.focus();
}
