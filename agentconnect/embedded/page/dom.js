// Building elements without markup strings: text can only ever become text.

/** One element: `h("button", {class: "plain", on: {click}}, "Text", child)`. */
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) setProp(el, name, value);
  el.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return el;
}

function setProp(el, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "on") {
    for (const [type, handler] of Object.entries(value)) el.addEventListener(type, handler);
  } else if (name === "data") {
    Object.assign(el.dataset, value);
  } else if (name === "value" || name === "checked" || name === "hidden") {
    el[name] = value;
  } else {
    el.setAttribute(name, value === true ? "" : String(value));
  }
}

export const byId = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

// 24x24 outlines, drawn for this page.
const SHAPES = {
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 4v5l3.5 2",
  send: "M5 12h13M12 5l7 7-7 7",
  clip: "M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.6-8.6a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4l7.8-7.8",
  plus: "M12 5v14M5 12h14",
  people: "M9 11a3.2 3.2 0 1 0 0-6.4A3.2 3.2 0 0 0 9 11zM3 19.4c.4-3.4 2.8-5.2 6-5.2s5.6 1.8 6 5.2M15.6 4.9a3.2 3.2 0 0 1 0 5.9M17.6 14.6c2 .7 3.1 2.3 3.4 4.8",
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6L6 18",
  reply: "M10 7L5 12l5 5M5 12h9a5 5 0 0 1 5 5v1",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  down: "M12 5v14M6 13l6 6 6-6",
  save: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  auto: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  help: "M9.3 9.2a2.8 2.8 0 1 1 4 2.6c-.9.5-1.3 1-1.3 2M12 17v.1M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z",
  leave: "M10 4H5v16h5M15 8l4 4-4 4M19 12H10",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  shield: "M12 3l7 3v5c0 4.5-2.9 8.2-7 10-4.1-1.8-7-5.5-7-10V6z",
  smile: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM8.5 14.2a4.4 4.4 0 0 0 7 0M9 9.6v.1M15 9.6v.1",
  key: "M14.5 13.5a4.5 4.5 0 1 0-4.3-3.2L4 16.5V20h3.5v-2.5H10V15l1.2-1.2a4.5 4.5 0 0 0 3.3-.3zM15.8 8.2v.1",
  chat: "M5 5h14v11h-8l-4 3.5V16H5z",
  retry: "M19 12a7 7 0 1 1-2.1-5M19 4v4h-4",
  warn: "M12 4l9 16H3zM12 10v4M12 17v.1",
};

/** A decorative icon; the control around it carries the words. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", SHAPES[name]);
  svg.append(path);
  return svg;
}

/** A button that shows an icon and says `label` to everybody who cannot see it. */
export function iconButton(name, label, props = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, ...props }, icon(name));
}

const KEPT = new Set(("A B BLOCKQUOTE BR CODE DEL DIV EM H1 H2 H3 H4 H5 H6 HR I LI OL P PRE S SPAN STRONG SUB SUP "
  + "TABLE TBODY TD TH THEAD TR UL").split(" "));

/**
 * The server's rendered Markdown as nodes. It is safe already; only known elements are copied all
 * the same, so that a mistake there could not become a hole here.
 */
export function rendered(html) {
  // A table's alignment comes as a style, which our own policy would refuse (and report) in parsing.
  const plain = html.replace(/ style="text-align:(left|center|right)"/g, ' align="$1"');
  const parsed = new DOMParser().parseFromString(plain, "text/html");
  const out = document.createDocumentFragment();
  for (const node of parsed.body.childNodes) copyInto(out, node);
  return out;
}

function copyInto(parent, node) {
  if (node.nodeType === Node.TEXT_NODE) {
    parent.append(node.data);
  } else if (node.nodeType === Node.ELEMENT_NODE && KEPT.has(node.tagName)) {
    const el = document.createElement(node.tagName);
    if (node.tagName === "A") linkOf(el, node.getAttribute("href") ?? "");
    if (node.hasAttribute("align")) el.setAttribute("align", node.getAttribute("align"));
    if (node.tagName === "OL" && node.hasAttribute("start")) el.setAttribute("start", node.getAttribute("start"));
    for (const child of node.childNodes) copyInto(el, child);
    parent.append(el);
  } else if (node.nodeType === Node.ELEMENT_NODE && node.tagName !== "SCRIPT" && node.tagName !== "STYLE") {
    parent.append(node.getAttribute("alt") ?? node.textContent);
  }
}

function linkOf(el, href) {
  if (!/^(https?:|mailto:)/i.test(href)) return;
  el.setAttribute("href", href);
  el.setAttribute("target", "_blank");
  el.setAttribute("rel", "noopener noreferrer");
}
