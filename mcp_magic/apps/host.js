// Shows the view of an MCP App (2026-01-26) and passes on what it asks for. No dependencies.
//
// `show(element, channel)` draws one view. A channel is
//   { send(message), listen(onMessage, onClose) -> stop }
// where onMessage takes (message, buffers) of the kernel and onClose says that the kernel has gone.
// At the end, `render` makes one of the model of an anywidget.

const VERSION = "2026-01-26";
const NOTE = "ui/notifications/";
const MAX_HEIGHT = 800; // pixels of a view in a cell; a higher one scrolls
const MAX_TEXT = 4_000_000; // characters of one request
const HELLO_MS = 1500; // between two tries to reach the kernel, which may be busy
const ARMED_MS = 600; // a question's buttons take no click that was meant for what they moved away
const TEARDOWN_MS = 1000; // that a view has to end
const MOST_DROPPED = 20_000; // messages above which a view is stopped
const GONE = "the kernel has gone: run the cell again";

const uid = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");

function json(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined; // a message can hold what JSON cannot
  }
}

function node(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function button(text, title, click) {
  const made = node("button", "", text);
  made.type = "button";
  made.title = title ?? "";
  made.onclick = click;
  return made;
}

// ---- The guard: the first script of a view's document, and of each document that the view makes in a frame.
//
// A policy of content does not apply to WebRTC, so the guard takes its classes away. A frame has a new window, with the
// classes; scripts run there only from `srcdoc` or `javascript:`, because a sandboxed document cannot touch the window of
// another. Trusted Types (`require-trusted-types-for` in the policy) lead each text that becomes markup through the
// guard: `srcdoc` gets the guard itself, other markup loses its `srcdoc`s, and `javascript:` is refused. The guard calls
// nothing that the view can replace.

function guard(name) {
  for (const each of Object.getOwnPropertyNames(self)) {
    if (/^(webkit|moz)?RTC/.test(each) || each === "XSLTProcessor") delete self[each]; // XSLT makes elements
  }
  for (const type of [Document, Element, ShadowRoot]) { // markup that comes in parts cannot be read
    for (const on of [type, type.prototype]) {
      for (const each of Object.getOwnPropertyNames(on)) if (/^stream.*HTML/.test(each)) delete on[each];
    }
  }
  const { get, set } = Object.getOwnPropertyDescriptor(XMLHttpRequest.prototype, "responseType");
  const apply = Reflect.apply;
  Object.defineProperty(XMLHttpRequest.prototype, "responseType", {
    get, set(value) { value = `${value}`; if (value !== "document") apply(set, this, [value]); },
  });
  Object.defineProperty(XMLHttpRequest.prototype, "responseXML", { get: () => null });
  const types = self.trustedTypes;
  if (!types) return;
  const code = Function.prototype.call.bind(String.prototype.charCodeAt);
  const slice = Function.prototype.call.bind(String.prototype.slice);
  const source = `<script>(${guard})("${name}")<\/script>`;
  const without = (text, word, instead) => {
    let made = "", from = 0;
    for (let i = 0; i + word.length <= text.length; i++) {
      let k = 0;
      while (k < word.length && (code(text, i + k) | 32) === code(word, k)) k++;
      if (k < word.length) continue;
      made += slice(text, from, i) + instead;
      from = i + k;
    }
    return made + slice(text, from);
  };
  const policy = Object.create(null);
  policy.createHTML = (text, _, sink) => {
    if (sink === "Document write" || sink === "Document writeln") return null; // a word can come in two calls
    if (sink === "DOMParser parseFromString" && without(text, "entity", "") !== text) return null; // of XML: hides words
    const made = without(text, "srcdoc", name);
    return sink === "HTMLIFrameElement srcdoc" ? source + made : made;
  };
  policy.createScript = (text, _, sink) => (sink === "Location href" ? null : text);
  policy.createScriptURL = (text) => text;
  types.createPolicy("default", policy);
  delete self.trustedTypes; // no other policy is possible, and libraries take its absence as an old browser
}

// What the guard cannot stop in a browser without Trusted Types.
const REMAINS = self.trustedTypes ? "" : "; in this browser, its own frames can use WebRTC";

const INERT = "data_srcdoc"; // instead of `srcdoc` in markup
const GUARD = `<script>(${guard})("${INERT}")</script>`;

// Returns a view's document with the guard. Markup can follow a script, but the mode of a document is in its beginning.
function guarded(html) {
  const mode = /^(?:\s|<!--[^]*?-->)*<!doctype\s+html/i.test(html) ? "<!doctype html>" : "";
  return mode + GUARD + html.replace(/(?<=[\t\n\f\r /"'])srcdoc(?=[\t\n\f\r ]*=)/gi, INERT);
}

// ---- The sandbox: a document of no origin, whose policy the view's own document inherits.
//
// It loads while the kernel is asked for the view, so the policy comes with the view and is set before the view's frame
// is made. It passes messages on, up to a rate: a flood ends in this document and not in the page.

const RELAY = `"use strict";
const host = parent; let inner, room = 400, dropped = 0, told = 0;
setInterval(() => { room = Math.min(400, room + 30); if (dropped > told) { told = dropped;
  host.postMessage({ jsonrpc: "2.0", method: "${NOTE}sandbox-dropped", params: { count: dropped } }, "*"); } }, 250);
addEventListener("message", (e) => {
  const d = e.data;
  if (e.source === host) {
    if (d && d.method === "${NOTE}sandbox-resource-ready") {
      if (inner) return;
      inner = document.createElement("iframe");
      inner.setAttribute("sandbox", "allow-scripts");
      if (d.params.allow) inner.setAttribute("allow", d.params.allow);
      inner.referrerPolicy = "no-referrer";
      inner.srcdoc = d.params.html; // the policy refuses to set it
      const policy = document.createElement("meta");
      policy.httpEquiv = "Content-Security-Policy";
      policy.content = d.params.policy || "default-src 'none'";
      document.head.append(policy);
      document.body.append(inner);
    } else if (inner) inner.contentWindow.postMessage(d, "*");
  } else if (inner && e.source === inner.contentWindow) {
    if (room < 1) { dropped++; return; }
    room--;
    if (d && typeof d.method === "string" && d.method.startsWith("${NOTE}sandbox-")) return;
    host.postMessage(d, "*");
  }
});
host.postMessage({ jsonrpc: "2.0", method: "${NOTE}sandbox-proxy-ready", params: {} }, "*");`;

const RELAY_DOCUMENT =
  `<!doctype html><html><head><meta charset="utf-8"><base href="about:srcdoc">` + // its links to "#part" stay in it
  `<meta http-equiv="x-dns-prefetch-control" content="off"><meta name="referrer" content="no-referrer">` +
  `<style>:root{color-scheme:light dark}html,body{margin:0;height:100%;overflow:hidden;background:transparent}` +
  `iframe{border:0;width:100%;height:100%;display:block}</style></head><body><script>${RELAY}</script></body></html>`;

// ---- What the view learns about the page: theme, colours, place.

function theme() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight) return jpThemeLight === "false" ? "dark" : "light";
  if (vscodeThemeKind) return /dark|high-contrast$/.test(vscodeThemeKind) ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

const VARIABLES = {
  "--color-background-primary": "--jp-layout-color1",
  "--color-background-secondary": "--jp-layout-color2",
  "--color-background-tertiary": "--jp-layout-color3",
  "--color-background-inverse": "--jp-inverse-layout-color1",
  "--color-text-primary": "--jp-content-font-color1",
  "--color-text-secondary": "--jp-content-font-color2",
  "--color-text-tertiary": "--jp-content-font-color3",
  "--color-text-inverse": "--jp-ui-inverse-font-color1",
  "--color-text-info": "--jp-info-color1",
  "--color-text-danger": "--jp-error-color1",
  "--color-text-success": "--jp-success-color1",
  "--color-text-warning": "--jp-warn-color1",
  "--color-border-primary": "--jp-border-color1",
  "--color-border-secondary": "--jp-border-color2",
  "--color-border-tertiary": "--jp-border-color3",
  "--color-ring-primary": "--jp-brand-color1",
  "--font-sans": "--jp-ui-font-family",
  "--font-mono": "--jp-code-font-family",
};

function styles() {
  const computed = getComputedStyle(document.body);
  const variables = {};
  for (const [name, source] of Object.entries(VARIABLES)) {
    const value = computed.getPropertyValue(source).trim();
    if (value) variables[name] = value;
  }
  return Object.keys(variables).length ? { variables } : undefined;
}

// ---- Messages of the kernel: large ones come compressed, in parts.

async function unpacked(parts) {
  const gzip = new DecompressionStream("gzip");
  const writer = gzip.writable.getWriter();
  const written = Promise.all([...parts.map((part) => writer.write(part)), writer.close()]);
  const [text] = await Promise.all([new Response(gzip.readable).text(), written]);
  return JSON.parse(text);
}

function inOrder(handle) {
  const packed = new Map();
  let last = Promise.resolve();
  return (message, buffers) => {
    last = last.then(async () => {
      if (message.kind !== "packed") return handle(message, buffers);
      const parts = packed.get(message.id) ?? [];
      parts[message.part] = buffers[0];
      packed.set(message.id, parts);
      if (message.part + 1 < message.of) return;
      packed.delete(message.id);
      await handle({ ...(await unpacked(parts)), view: message.view }, []);
    }).catch((error) => console.error("mcp_magic: a message of the kernel", error));
  };
}

// ---- One view.

export function show(element, channel) {
  const id = uid();
  const root = node("div", "mcp-app");
  const bar = node("div", "mcp-app-bar");
  const label = node("span", "mcp-app-label", "app");
  const title = node("span", "mcp-app-title");
  const status = node("span", "mcp-app-status", "loading…");
  const buttons = node("span", "mcp-app-buttons");
  const notes = node("div", "mcp-app-notes");
  const questions = node("div", "mcp-app-questions");
  const place = node("div", "mcp-app-frame");
  status.setAttribute("role", "status");
  bar.append(label, title, status, buttons);
  root.append(bar, questions, notes, place);
  element.replaceChildren(root);

  let view = null; // what the kernel sent to show
  let frame = null;
  let isNew = false; // whether the frame has had no view yet
  let isLoaded = false; // whether its relay can take one
  let ready = false; // whether the app has said that it is initialized
  let mode = "inline";
  let modes = null; // the display modes that the app can take, if it says so
  let greeted = false;
  let gone = false;
  let requests = 0;
  const waiting = new Map(); // requests to the app: id -> resolve
  const pending = new Set(); // requests of the app that the kernel answers

  function send(message) {
    try {
      channel.send({ ...message, view: id });
    } catch (error) {
      console.warn("mcp_magic: the kernel cannot be reached", error);
      onClose();
    }
  }
  const post = (message) => frame?.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params) => ready && post({ method: NOTE + method, params });
  const fail = (request, message, code = -32000) => post({ id: request, error: { code, message } });

  function say(text) {
    status.textContent = text;
  }

  // -- the view's frame

  const context = () => ({
    theme: theme(),
    styles: styles(),
    displayMode: mode,
    availableDisplayModes: ["inline", "fullscreen"],
    containerDimensions: mode === "inline"
      ? { width: place.clientWidth, maxHeight: MAX_HEIGHT }
      : { width: place.clientWidth, height: place.clientHeight },
    locale: navigator.language,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    userAgent: view?.host?.name,
    platform: "web",
    deviceCapabilities: { touch: matchMedia("(pointer:coarse)").matches, hover: matchMedia("(hover:hover)").matches },
    ...(view?.tool ? { toolInfo: { tool: view.tool } } : {}),
  });

  function load(allow = "") {
    isNew = true;
    isLoaded = false;
    frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    if (allow) frame.setAttribute("allow", allow);
    frame.referrerPolicy = "no-referrer";
    frame.style.height = "0";
    frame.srcdoc = RELAY_DOCUMENT;
    place.replaceChildren(frame);
  }

  function fill() {
    if (!view || !isLoaded || !isNew) return;
    isNew = false;
    post({ method: NOTE + "sandbox-resource-ready", params: { html: guarded(view.html), policy: view.policy, allow: view.allow } });
  }

  function start() {
    ready = false;
    if (!isNew || view.allow) load(view.allow); // what a frame allows is set before it loads
    frame.title = `${view.label}: ${view.title}`;
    frame.style.colorScheme = theme();
    setHeight(view.height || 160);
    fill();
    place.classList.toggle("mcp-app-border", view.border !== false);
    label.textContent = view.label;
    title.textContent = view.title;
    title.title = (view.sources.length ? `may load from ${view.sources.join(", ")}` : "loads nothing from elsewhere") + REMAINS;
    say("starting…");
    drawButtons();
  }

  function setHeight(height) {
    frame.style.height = `${Math.min(Math.max(Math.ceil(height), 24), MAX_HEIGHT)}px`;
  }

  function drawButtons() {
    buttons.replaceChildren();
    if (!view || !frame) return;
    if (view.wants.length && !gone) {
      buttons.append(button(`Allow ${view.wants.join(", ")}…`, "what this view would like to use", () => send({ kind: "grant" })));
    }
    const full = mode === "fullscreen";
    buttons.append(button(full ? "Leave full screen" : "Full screen", "", () => setMode(full ? "inline" : "fullscreen")));
  }

  function input() {
    if (!view.partial) notify("tool-input", { arguments: view.arguments });
    else if (Object.keys(view.arguments).length) notify("tool-input-partial", { arguments: view.arguments });
  }

  function outcome() {
    if (view.outcome.method) post(view.outcome);
  }

  async function setMode(wanted) {
    if (wanted === mode) return;
    if (wanted === "fullscreen") {
      await root.requestFullscreen?.().catch(() => {}); // without it, the view fills the page
    } else if (document.fullscreenElement === root) {
      await document.exitFullscreen();
    }
    mode = wanted;
    root.classList.toggle("mcp-app-full", mode === "fullscreen");
    drawButtons();
    notify("host-context-changed", { displayMode: mode, containerDimensions: context().containerDimensions });
  }

  function ask(method, params, ms) {
    return new Promise((resolve) => {
      const request = `host-${++requests}`;
      waiting.set(request, resolve);
      post({ id: request, method, params });
      setTimeout(() => waiting.delete(request) && resolve(null), ms);
    });
  }

  async function end(reason) {
    if (!frame) return;
    if (ready) await ask("ui/resource-teardown", { reason }, TEARDOWN_MS);
    remove();
    if (mode !== "inline") await setMode("inline");
    questions.replaceChildren();
    drawButtons();
    say(reason);
  }

  // -- what the app sends

  const here = {
    ping: () => ({}),
    "ui/initialize": (params) => {
      modes = params?.appCapabilities?.availableDisplayModes ?? null;
      return { protocolVersion: VERSION, hostInfo: view.host, hostCapabilities: view.capabilities, hostContext: context() };
    },
    "ui/request-display-mode": async (params) => {
      const wanted = params?.mode;
      const can = !modes || modes.includes(wanted);
      const clicked = navigator.userActivation?.isActive ?? true; // an app cannot take the screen by itself
      if (can && (wanted === "inline" || (wanted === "fullscreen" && clicked))) await setMode(wanted);
      return { mode };
    },
  };

  const told = {
    initialized: () => {
      ready = true;
      say("");
      input();
      outcome();
    },
    "size-changed": (params) => {
      const height = params?.height;
      if (mode !== "inline" || !Number.isFinite(height)) return;
      setHeight(height);
      remember(height);
    },
    "request-teardown": () => end("closed by the app"),
    "sandbox-dropped": (params) => {
      const count = Number(params?.count) || 0;
      say(`sends too many messages: ${count.toLocaleString()} dropped`);
      if (count > MOST_DROPPED) stop();
    },
  };

  let remembered = 0;
  function remember(height) {
    clearTimeout(remembered);
    remembered = setTimeout(() => send({ kind: "size", height }), 500);
  }

  function remove() {
    frame?.remove();
    frame = null;
    isNew = ready = false;
  }

  function stop() {
    remove();
    say("stopped: it sent too many messages");
    buttons.replaceChildren(button("Start again", "", start));
  }

  async function onWindowMessage(event) {
    if (!frame || event.source !== frame.contentWindow || event.origin !== "null") return;
    const data = event.data;
    if (!data || data.jsonrpc !== "2.0") return;
    const { id: request, method, params } = data;
    if (method === undefined) {
      waiting.get(request)?.(data);
      waiting.delete(request);
    } else if (method === NOTE + "sandbox-proxy-ready") {
      isLoaded = true;
      fill();
    } else if (request === undefined) {
      if (method === "notifications/message") send({ kind: "log", params: { level: params?.level, data: brief(params?.data) } });
      else if (method === "notifications/cancelled") {
        if (pending.delete(params?.requestId)) send({ kind: "cancel", id: params.requestId });
      }
      else if (typeof method === "string" && method.startsWith(NOTE)) {
        const name = method.slice(NOTE.length);
        if (Object.hasOwn(told, name)) await told[name](params);
      }
    } else if (Object.hasOwn(here, method)) {
      post({ id: request, result: await here[method](params) });
    } else {
      forward(request, method, params ?? {});
    }
  }

  function brief(data) {
    const text = typeof data === "string" ? data : json(data) ?? "";
    return text.slice(0, 2000);
  }

  function forward(request, method, params) {
    if (gone) return fail(request, GONE);
    const size = json(params)?.length;
    if (!(size <= MAX_TEXT)) return fail(request, `a request is JSON of at most ${MAX_TEXT} characters`);
    pending.add(request);
    send({ kind: "request", id: request, method, params });
  }

  // -- questions, above the frame: the app can neither cover nor draw them

  const cardOf = (list, name) => list.querySelector(`[data-id="${CSS.escape(name)}"]`);

  function showQuestion(message) {
    if (cardOf(questions, message.id)) return;
    const card = node("div", "mcp-app-question");
    card.dataset.id = message.id;
    card.setAttribute("role", "group");
    card.setAttribute("aria-label", `${message.label} asks`);
    card.append(node("div", "mcp-app-label", message.label), node("div", "mcp-app-text", message.text));
    const closed = new Set();
    for (const [name, text] of message.long) {
      const part = node("details");
      part.append(node("summary", "", name), node("pre", "", text));
      closed.add(part);
      part.ontoggle = () => {
        closed.delete(part);
        arm();
      };
      card.append(part);
    }
    const fields = new Map();
    const choices = [];
    const line = node("div", "mcp-app-choices");
    for (const choice of message.choices) {
      const made = button(choice.label, choice.tooltip, () => {
        if (choice.name === "yes" && message.link) window.open(message.link, "_blank", "noopener,noreferrer");
        const extra = Object.fromEntries([...fields].map(([name, read]) => [name, read()]));
        send({ kind: "answer", id: message.id, choice: choice.name, extra });
        card.remove();
      });
      choices.push(made);
      const beside = message.extra.filter((each) => each.beside === choice.name);
      const drawn = (extras) => extras.map((extra) => field(extra, fields, made));
      // a line of text is written before its button is pressed
      line.append(...drawn(beside.filter((extra) => extra.is_text)), made, ...drawn(beside.filter((extra) => !extra.is_text)));
    }
    card.append(line);
    let since = performance.now();
    function arm() {
      const early = performance.now() - since < ARMED_MS;
      choices.forEach((each, at) => (each.disabled = early || (at === 0 && message.must_open && closed.size > 0)));
    }
    arm();
    setTimeout(arm, ARMED_MS + 10);
    questions.append(card);
  }

  function field(extra, fields, choose) {
    const frameOf = node("label", "", "");
    frameOf.title = extra.tooltip;
    let input;
    if (typeof extra.value === "boolean") {
      input = node("input");
      input.type = "checkbox";
      input.checked = extra.value;
      fields.set(extra.name, () => input.checked);
      frameOf.append(input, ` ${extra.label}`);
    } else if (extra.options.length) {
      input = node("select");
      for (const [text, value] of extra.options) input.append(new Option(text, value));
      fields.set(extra.name, () => input.value);
      frameOf.append(input);
    } else {
      input = node("input");
      input.placeholder = extra.label;
      input.onkeydown = (event) => event.key === "Enter" && choose.click();
      fields.set(extra.name, () => input.value);
      frameOf.append(input);
    }
    input.setAttribute("aria-label", extra.label || extra.tooltip);
    return frameOf;
  }

  function showMessage(message) {
    const card = node("div", "mcp-app-note");
    card.append(node("div", "mcp-app-label", `${view.label} would like you to say`), node("div", "mcp-app-text", message.text));
    const line = node("div", "mcp-app-choices");
    card.dataset.id = message.id;
    const use = button("Use", "send it as yours with the next turn of an agent", () => {
      send({ kind: "message", id: message.id, how: "use" });
      used();
    });
    const used = () => use.replaceWith(node("span", "mcp-app-status", "goes out with the next turn of an agent"));
    line.append(
      use,
      button("Copy", "copy the text", () => navigator.clipboard?.writeText(message.text)),
      button("Dismiss", "do not send it", () => send({ kind: "message", id: message.id, how: "dismiss" })),
    );
    if (message.used) used();
    card.append(line);
    notes.append(card);
  }

  // -- what the kernel sends

  async function onKernelMessage(message) {
    if (message.view !== id) return;
    if (message.kind === "view" || message.kind === "failed") greeted = true; // what else comes is no answer to hello
    if (message.kind === "view") {
      if (view && !message.again) return; // the kernel was busy, and was asked twice
      notes.replaceChildren();
      view = message;
      start();
      view.messages.forEach(showMessage);
    } else if (message.kind === "failed") {
      if (!view) remove();
      label.textContent = message.label;
      say(message.text);
    } else if (message.kind === "reply") {
      if (!pending.delete(message.id)) return;
      post(message.error ? { id: message.id, error: message.error } : { id: message.id, result: message.result });
    } else if (message.kind === "input") {
      if (!view) return;
      view.arguments = message.arguments;
      view.partial = message.partial;
      input();
    } else if (message.kind === "outcome") {
      if (!view) return;
      view.outcome = { method: message.method, params: message.params };
      if (ready) outcome();
    } else if (message.kind === "ask") {
      showQuestion(message);
    } else if (message.kind === "answered") {
      cardOf(questions, message.id)?.remove();
    } else if (message.kind === "message") {
      showMessage(message);
    } else if (message.kind === "forgotten") {
      cardOf(notes, message.id)?.remove();
    } else if (message.kind === "status") {
      say(message.text);
    } else if (message.kind === "download") {
      const bytes = Uint8Array.from(atob(message.data), (c) => c.charCodeAt(0));
      const link = node("a");
      link.href = URL.createObjectURL(new Blob([bytes], { type: message.mime }));
      link.download = message.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } else if (message.kind === "teardown") {
      await end(message.reason);
    }
  }

  function onClose() {
    if (gone) return;
    gone = true;
    questions.replaceChildren();
    pending.forEach((request) => fail(request, GONE));
    pending.clear();
    say(GONE);
    drawButtons();
  }

  // -- listening

  const tellTheme = () => {
    if (frame) frame.style.colorScheme = theme();
    notify("host-context-changed", { theme: theme(), styles: styles() });
  };
  const themes = new MutationObserver(tellTheme);
  const attributeFilter = ["data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind"];
  themes.observe(document.body, { attributes: true, attributeFilter });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", tellTheme);
  const sizes = new ResizeObserver(() => notify("host-context-changed", { containerDimensions: context().containerDimensions }));
  sizes.observe(place);
  const onFullscreen = () => mode === "fullscreen" && !document.fullscreenElement && setMode("inline");
  const onKey = (event) => event.key === "Escape" && mode === "fullscreen" && setMode("inline");
  document.addEventListener("fullscreenchange", onFullscreen);
  document.addEventListener("keydown", onKey);
  window.addEventListener("message", onWindowMessage);
  const unlisten = channel.listen(inOrder(onKernelMessage), onClose);

  load();

  let hello = 0;
  function greet() {
    if (greeted || gone) return;
    if (hello) say("waiting for the kernel…");
    send({ kind: "hello" });
    hello = setTimeout(greet, HELLO_MS);
  }
  greet();

  return () => {
    // the frame may be gone from the page already, so the app is told and not waited for
    if (ready) post({ id: `host-${++requests}`, method: "ui/resource-teardown", params: { reason: "closed" } });
    clearTimeout(hello);
    unlisten();
    themes.disconnect();
    sizes.disconnect();
    dark.removeEventListener("change", tellTheme);
    document.removeEventListener("fullscreenchange", onFullscreen);
    document.removeEventListener("keydown", onKey);
    window.removeEventListener("message", onWindowMessage);
    if (!gone) send({ kind: "gone" }); // last: it fails where the kernel has just ended
  };
}

// ---- The widget.

function render({ model, el }) {
  return show(el, {
    send: (message) => model.send(message),
    listen: (onMessage, onClose) => {
      // anywidget hands on the event and not the state: a comm that was alive has gone
      model.on("msg:custom", onMessage);
      model.on("comm_live_update", onClose);
      return () => {
        model.off("msg:custom", onMessage);
        model.off("comm_live_update", onClose);
      };
    },
  });
}

export default { render };
