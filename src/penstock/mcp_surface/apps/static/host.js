// Talks to the host: JSON-RPC over postMessage, as the extension says. Shows texts as text, never as markup.
"use strict";

const VERSION = "2026-01-26";
const TEXT_CHARACTERS_MAX = 20000;
const pending = new Map();
let requests = 0;

function send(message) {
  // The host has seen everything that is sent here: it is what it sent itself.
  parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function ask(method, params) {
  return new Promise((resolve, reject) => {
    requests += 1;
    pending.set(requests, { resolve, reject });
    send({ id: requests, method, params });
  });
}

function settle(message) {
  const open = pending.get(message.id);
  if (open === undefined) return;
  pending.delete(message.id);
  if (message.error === undefined) open.resolve(message.result ?? {});
  else open.reject(new Error(String(message.error?.message ?? "refused")));
}

function dress(context) {
  if (context?.theme === "light" || context?.theme === "dark") document.documentElement.dataset.theme = context.theme;
}

function listen(show) {
  const handlers = {
    "ui/notifications/tool-result": (params) => show(params ?? {}),
    "ui/notifications/tool-cancelled": () => replace(note("The call was cancelled.")),
    "ui/notifications/host-context-changed": dress,
    "ui/resource-teardown": () => {},
    ping: () => {},
  };
  addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== parent || message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) return settle(message);
    const known = Object.hasOwn(handlers, message.method);
    if (known) handlers[message.method](message.params);
    if (message.id === undefined) return;
    send(known ? { id: message.id, result: {} } : { id: message.id, error: { code: -32601, message: "Method not found" } });
  });
  new ResizeObserver(() => {
    const { width, height } = document.body.getBoundingClientRect();
    send({ method: "ui/notifications/size-changed", params: { width: Math.ceil(width), height: Math.ceil(height) } });
  }).observe(document.body);
  const about = { appInfo: { name: document.title, version: "1" }, appCapabilities: { availableDisplayModes: ["inline"] } };
  ask("ui/initialize", { protocolVersion: VERSION, ...about }).then(
    (answer) => { dress(answer.hostContext); send({ method: "ui/notifications/initialized", params: {} }); },
    (error) => replace(note(`The host refused this page: ${error.message}`)),
  );
}

function visible(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const cut = text.length > TEXT_CHARACTERS_MAX
    ? `${text.slice(0, TEXT_CHARACTERS_MAX)}\n… (${text.length - TEXT_CHARACTERS_MAX} more characters)` : text;
  return cut.replace(UNSEEN, (seen) => `[U+${seen.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

function make(name, kind, ...children) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  for (const child of children) made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  return made;
}

function note(text) { return make("p", "quiet", text); }

function replace(...parts) { document.querySelector("main").replaceChildren(...parts); }

function facts(pairs) {
  const list = make("dl");
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "") continue;
    list.append(make("dt", "", name), make("dd", "", value));
  }
  return list;
}

function moment(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

const OPENS = {
  approval: "Review and decide in the console",
  answer: "Answer on the server's page",
  run: "Open the run in the console",
  draft: "Open it in the console",
};

// A button that asks the host to open a page of the server. It decides nothing: whoever opens it signs in there.
function way(open) {
  if (typeof open?.url !== "string" || !/^https?:\/\//i.test(open.url)) return [];
  const button = make("button", ["approval", "answer"].includes(open.what) ? "main" : "", OPENS[open.what] ?? "Open");
  const where = make("span", "quiet", new URL(open.url).host);
  const said = make("p", "quiet");
  said.setAttribute("role", "status");
  button.type = "button";
  button.addEventListener("click", () => ask("ui/open-link", { url: open.url }).then(
    () => said.replaceChildren(),
    () => said.replaceChildren(document.createTextNode(visible(`The page was not opened. Its address is ${open.url}`))),
  ));
  return [make("div", "actions", button, where), said];
}
