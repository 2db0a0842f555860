/* The chat: conversations, requests to OpenAI's API of this server, answers as they stream, settings. */
import * as map from "./page_map.js";
import * as pictures from "./page_pictures.js";
import * as store from "./page_store.js";
import { copy, element, icon, show } from "./page_text.js";

const $ = (id) => document.getElementById(id);
const POLL_MS = 1000;  /* the map, while it is shown */
const HEALTH_MS = 5000;
const SAVE_MS = 1000;  /* an answer that streams */
const TITLE = 60;      /* characters */

const PENCIL = "M4 16l1-4 8-8 3 3-8 8zM11.5 5.5l3 3", BIN = "M4 6h12M8 6V4h4v2M6 6l1 10h6l1-10", DOWN = "M10 4v9M6 9l4 4 4-4M4 16h12";

let settings = store.settings();
let current = null;  /* the conversation that is shown */
let running = null;  /* {abort, conversation, message} of the answer that comes */
let template = true; /* the model has a chat template */
let sees = false;    /* and a vision tower */
let api = store.key();

/* --- the server */

/* What its errors say, in its words. */
async function wordsOf(response) {
  const text = await response.text();
  try {
    const message = JSON.parse(text).error.message;
    if (typeof message === "string")
      return message;
  } catch { /* not an error of the API */ }
  return text.slice(0, 500) || "The server answered " + response.status + ".";
}

class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function ask(path, body, signal) {
  const headers = {};
  if (api !== "")
    headers.Authorization = "Bearer " + api;
  if (body !== undefined)
    headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body && JSON.stringify(body),
      signal, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (e) {
    throw e.name === "AbortError" ? e : new Refused("The server can't be reached.", 0);
  }
  if (response.ok)
    return response;
  const words = await wordsOf(response);
  if (response.status === 401)
    wantKey(words);
  throw new Refused(words, response.status);
}

/* Events of a stream: f(object) for each, progress(text) for each comment. False: it ended without [DONE]. */
async function readEvents(response, f, progress) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done)
      return false;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      if (event.startsWith(":"))
        progress(event.slice(1).trim());
      else if (event === "data: [DONE]")
        return true;
      else if (event.startsWith("data: "))
        f(JSON.parse(event.slice(6)));
    }
  }
}

/* --- health, model, key */

let healthy = false;

function tellHealth(state, text) {
  healthy = state === "ok";
  if ($("health").dataset.state !== state)
    $("health").dataset.state = state;
  if ($("health-text").textContent !== text)
    $("health-text").textContent = text;
}

const busy = (h) => h.running > 0 ? h.running + " running" + (h.waiting > 0 ? ", " + h.waiting + " waiting" : "") : "ready";

async function lookAtHealth() {
  try {
    const response = await fetch("/health", { cache: "no-store" });
    const h = await response.json();
    if (h.status === "ok")
      tellHealth("ok", busy(h));
    else
      tellHealth(["loading", "draining", "late"].includes(h.status) ? "wait" : "bad", h.message ?? h.error?.message ?? h.status);
  } catch {
    tellHealth("bad", "not reachable");
  }
}

let known = false; /* /props was read */

/* What a request gets whose field is empty. */
function placeholderOf(field, props) {
  if (field === "max_tokens")
    return props.default_max_tokens ?? props.context;
  const value = props.default_generation_settings.params[field];
  return field === "seed" && value === -1 ? "random" : value;
}

async function lookAtModel() {
  try {
    const props = await (await ask("/props")).json();
    known = true;
    template = props.chat_template !== null;
    sees = template && props.modalities?.vision === true;
    $("attach").hidden = !sees;
    $("form").classList.toggle("sees", sees);
    $("model").textContent = props.model;
    $("model").title = `${props.model}, ${props.architecture}, ${props.weight_type}, context of ${props.context} tokens; stator ${props.version}`;
    document.title = props.model + " · stator";
    for (const input of document.querySelectorAll("input[data-field]"))
      input.placeholder = placeholderOf(input.dataset.field, props);
    $("system-hint").hidden = template;
    $("system").disabled = !template;
    $("thinking-label").hidden = !template || !props.chat_template.includes("enable_thinking");
    $("key-form").hidden = true;
    showEmpty();
  } catch { /* loading, or without the key: asked again */ }
}

function wantKey(words) {
  $("key-error").textContent = words;
  $("key-error").hidden = api === "";
  if (!$("key-form").hidden)
    return;
  $("key-form").hidden = false;
  showEmpty();
  if (document.activeElement === document.body || document.activeElement === $("prompt"))
    $("key").focus();
}

function takeKey(text) {
  api = text.trim();
  store.saveKey(api);
  known = false;
  lookAtModel();
  if (mapShown())
    lookAtMemory();
}

/* --- the map */

const mapShown = () => document.body.classList.contains("with-map");
let looking = false;

async function lookAtMemory() {
  if (looking)
    return;
  looking = true;
  try {
    const m = await (await ask("/memory")).json();
    map.show(m);
    if (healthy) /* its figures are newer than those of /health, and stand beside the map */
      tellHealth("ok", busy(m));
  } catch (e) {
    map.fail(e.status === 401 ? "The memory is shown when the server has the API key." : e.message);
  }
  looking = false;
}

function showMap(shown) {
  document.body.classList.toggle("with-map", shown);
  $("open-map").setAttribute("aria-expanded", String(shown));
  settings.map = shown;
  store.saveSettings(settings);
  if (shown)
    lookAtMemory();
}

function showList(shown) {
  $("side").classList.toggle("shown", shown);
  $("open-list").setAttribute("aria-expanded", String(shown));
}

/* --- messages */

const title = (c) => c.title || "New conversation";

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = text === "";
}

function save(c) {
  const gone = store.save(c);
  if (gone === null)
    notice("This browser has no room to keep the conversation.");
  else if (gone.length > 0)
    notice("To make room, the oldest conversations were removed: " + gone.join(", "));
}

/* Pieces that came at once say nothing of a rate. */
const rate = (n, ms) => ms >= 5 ? (1000 * n / ms).toFixed(1) + " tokens/s" : "";

function statsOf(m) {
  const s = m.stats;
  if (s === undefined)
    return "";
  const text = [];
  if (s.tokens > 0)
    text.push(`${s.tokens} tokens`, rate(s.tokens > 1 ? s.tokens - 1 : s.tokens, s.ms));
  if (s.first_ms !== undefined)
    text.push(`first token after ${(s.first_ms / 1000).toFixed(2)} s`);
  if (s.prompt > 0)
    text.push([`prompt ${s.prompt + s.cached} tokens`, s.cached > 0 ? `${s.cached} of them cached` : "", rate(s.prompt, s.prompt_ms)].filter((t) => t !== "").join(", "));
  return text.filter((t) => t !== "").join(" · ");
}

function reasoningOf(m) {
  const text = element("div", { class: "text" });
  const box = element("details", { class: "reasoning" }, element("summary", {}, "Reasoning"), text);
  box.hidden = !m.reasoning;
  text.textContent = m.reasoning ?? "";
  return box;
}

/* What stands below an answer. */
function endOf(m, index) {
  const out = [];
  if (m.error)
    out.push(element("div", { class: "fault", role: "alert" }, m.error));
  if (m.note)
    out.push(element("p", { class: "note" }, m.note));
  const actions = element("span", { class: "actions" });
  if (m.content !== "") {
    const button = element("button", { type: "button", onclick: () => copy(m.content, button) }, "Copy");
    actions.append(button);
  }
  if (index === current.messages.length - 1 && m.cut && (m.content !== "" || m.reasoning))
    actions.append(element("button", { type: "button", class: "continue", onclick: () => goOn(m) }, "Continue"));
  if (index === current.messages.length - 1)
    actions.append(element("button", { type: "button", class: "regenerate", onclick: () => regenerate() }, m.error ? "Try again" : "Regenerate"));
  out.push(element("div", { class: "tools" }, element("span", { class: "stats" }, statsOf(m)), actions));
  return out;
}

function messageOf(m, index) {
  const body = element("div", { class: "body" });
  const item = element("li", { class: "message " + m.role }, element("div", { class: "who" }, m.role === "user" ? "You" : "Model"));
  if (m.role === "user") {
    body.textContent = m.content;
    if (m.pictures !== undefined)
      body.prepend(element("div", { class: "pictures" }, ...m.pictures.map(pictures.preview)));
    const tools = element("div", { class: "tools" }, element("button", { type: "button", class: "edit", onclick: () => edit(item, index) }, "Edit"));
    item.append(body, tools);
    return item;
  }
  item.append(reasoningOf(m), body);
  if (running !== null && running.message === m) {
    body.classList.add("waiting");
    running.item = item;
  } else {
    item.append(...endOf(m, index));
  }
  show(body, m.content);
  return item;
}

function showEmpty() {
  $("empty").hidden = current.messages.length > 0 || !$("key-form").hidden;
  $("empty-title").textContent = template ? "What would you like to know?" : "How does the text begin?";
  $("empty-text").textContent = template ? "Answers come from this machine. The map beside them shows every byte that they use."
    : "This model has no chat template: it goes on with what you write.";
  $("prompt").placeholder = template ? "Message" : "Beginning of a text";
}

function showMessages() {
  $("log").replaceChildren(...current.messages.map(messageOf));
  showEmpty();
}

const atEnd = () => $("scroll").scrollHeight - $("scroll").scrollTop - $("scroll").clientHeight < 60;
const toEnd = () => { $("scroll").scrollTop = $("scroll").scrollHeight; };

/* --- conversations */

function tool(label, path, run) {
  return element("button", { type: "button", "aria-label": label, title: label, onclick: run }, icon(path));
}

function rowOf(c) {
  const name = title(c);
  return element("li", { class: c === current ? "current" : null, "data-id": c.id },
    element("button", { type: "button", class: "open", "aria-current": c === current ? "true" : null, title: name, onclick: () => open(c) }, name),
    element("span", { class: "tools" }, tool("Rename " + name, PENCIL, () => rename(c)), tool("Export " + name, DOWN, () => exportOne(c)),
      tool("Delete " + name, BIN, () => remove(c))));
}

function showConversations() {
  const all = store.list();
  $("list").replaceChildren(...(all.includes(current) ? all : [current, ...all]).map(rowOf));
}

function open(c) {
  current = c;
  settings.last = c.id;
  store.saveSettings(settings);
  showConversations();
  showMessages();
  showRunning();
  showList(false);
  map.watch(c === running?.conversation ? running.id ?? "" : "");
  toEnd();
  $("prompt").focus();
}

/* One that is empty is used before another is made. */
function begin() {
  open(store.list().find((c) => c.messages.length === 0 && c.system === "" && c.title === "") ?? store.create());
}

async function question(text, more, yes, value) {
  $("ask-title").textContent = text;
  $("ask-text").textContent = more;
  $("ask-yes").textContent = yes;
  $("ask-value").hidden = value === undefined;
  $("ask-value").value = value ?? "";
  $("ask").returnValue = "no";
  $("ask").showModal();
  if (value !== undefined)
    $("ask-value").select();
  await new Promise((f) => { $("ask").addEventListener("close", f, { once: true }); });
  return $("ask").returnValue === "yes" ? $("ask-value").value.trim() || true : null;
}

async function rename(c) {
  const name = await question("Rename the conversation", "", "Rename", title(c));
  if (typeof name === "string") {
    c.title = name;
    save(c);
    showConversations();
  }
}

async function remove(c) {
  if (await question("Delete the conversation?", `“${title(c)}” is removed from this browser.`, "Delete") === null)
    return;
  if (running !== null && running.conversation === c)
    running.abort.abort();
  store.remove(c);
  if (c === current)
    open(store.list()[0] ?? store.create());
  else
    showConversations();
}

function exportOne(c) {
  const file = new Blob([JSON.stringify(c, null, 2) + "\n"], { type: "application/json" });
  const address = URL.createObjectURL(file);
  element("a", { href: address, download: title(c).replace(/[^\p{L}\p{N} _-]/gu, "").slice(0, TITLE) + ".json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/* --- an answer */

function fieldsOf() {
  const fields = {};
  for (const input of document.querySelectorAll("[data-field]")) {
    const text = settings.sampling[input.dataset.field] ?? "";
    if (text === "" || input.closest("[hidden]") !== null)
      continue;
    fields[input.dataset.field] = input.tagName === "SELECT" ? text === "true" : Number(text);
    if (Number.isInteger(fields[input.dataset.field]) && !Number.isSafeInteger(fields[input.dataset.field]))
      throw new Refused(`${input.parentElement.textContent.trim()}: ${text} is too large for a browser: at most ${Number.MAX_SAFE_INTEGER}.`, 0);
  }
  return fields;
}

/* A message as the server takes it. A last answer that goes on may have come no further than its reasoning. */
function sentOf(m, goesOn) {
  const gone = m.pictures?.find((p) => pictures.urlOf(p) === undefined);
  if (gone !== undefined)
    throw new Refused(`${gone.name} was too large to be kept in this browser. Edit its message: it goes without the picture then.`, 0);
  if (m.pictures !== undefined)
    return { role: m.role, content: [...pictures.partsOf(m.pictures), { type: "text", text: m.content }] };
  return goesOn && m.reasoning ? { role: m.role, content: m.content, reasoning_content: m.reasoning } : { role: m.role, content: m.content };
}

/* Messages before the answer as a request; the last of them is its beginning if it goes on. Without a template they are
 * one text that goes on. */
function requestOf(c, messages, goesOn) {
  const common = { ...fieldsOf(), stream: true, stream_options: { include_usage: true } };
  if (!template)
    return ["/v1/completions", { ...common, prompt: messages.map((m) => m.content).join("") }];
  const last = goesOn ? messages[messages.length - 1] : null;
  const sent = messages.filter((m) => m.role === "user" || m.content !== "" || m === last).map((m) => sentOf(m, m === last));
  return ["/v1/chat/completions", { ...common, messages: c.system.trim() === "" ? sent : [{ role: "system", content: c.system }, ...sent] }];
}

function showRunning() {
  const here = running !== null && running.conversation === current;
  $("stop").hidden = running === null;
  $("send").hidden = running !== null;
  $("log").setAttribute("aria-busy", String(here));
  if (running === null)
    $("live").textContent = "";
}

/* At most once per picture. */
function showLater(r) {
  if (r.planned)
    return;
  r.planned = true;
  requestAnimationFrame(() => {
    r.planned = false;
    if (running !== r)
      return;
    const m = r.message, s = m.stats;
    $("live").textContent = s.tokens > 0 ? `${s.tokens} tokens` + (s.tokens > 1 ? " · " + rate(s.tokens - 1, s.ms) : "") : r.progress;
    if (r.conversation !== current || r.item === null)
      return;
    const follow = atEnd();
    const reasoning = r.item.querySelector(".reasoning");
    reasoning.hidden = !m.reasoning;
    reasoning.querySelector("summary").textContent = m.content === "" && m.reasoning ? "Reasoning …" : "Reasoning";
    reasoning.querySelector(".text").textContent = m.reasoning ?? "";
    show(r.item.querySelector(".body"), m.content);
    if (follow)
      toEnd();
  });
}

/* One event of the stream. */
function take(r, event) {
  const m = r.message;
  if (event.error !== undefined)
    throw new Refused(event.error.message, event.error.code);
  if (!r.marked && event.id !== undefined) {
    r.marked = true;
    r.id = event.id;
    map.mark(event.id);
    if (r.conversation === current)
      map.watch(event.id);
  }
  const choice = event.choices?.[0];
  const text = choice?.delta?.content ?? choice?.text ?? "", thought = choice?.delta?.reasoning_content ?? "";
  if (text !== "" || thought !== "") {
    const now = performance.now();
    if (m.stats.first_ms === undefined)
      m.stats.first_ms = now - r.began;
    m.stats.tokens++; /* an event is a token, mostly; the server's own figures come at the end */
    m.stats.ms = now - r.began - m.stats.first_ms;
    m.content += text;
    if (thought !== "")
      m.reasoning = (m.reasoning ?? "") + thought;
  }
  for (const call of choice?.delta?.tool_calls ?? [])
    m.content += (call.function?.name ? "\n`" + call.function.name + "` " : "") + (call.function?.arguments ?? "");
  if (choice?.finish_reason === "length") {
    m.cut = true;
    m.note = "The answer ends here because it has as many tokens as it may have (Max tokens, or the context).";
  }
  if (event.timings !== undefined) {
    const t = event.timings;
    Object.assign(m.stats, { tokens: t.predicted_n, ms: t.predicted_ms, prompt: t.prompt_n, prompt_ms: t.prompt_ms, cached: t.cache_n });
  }
}

/* Unless it was deleted meanwhile. */
function keep(c) {
  if (store.get(c.id) === c)
    save(c);
}

/* Nothing else is made anew: what was unfolded stays so, and the focus where it is. */
function endMessage(r, index) {
  const m = r.message, body = r.item.querySelector(".body"), reasoning = r.item.querySelector(".reasoning");
  body.classList.remove("waiting");
  show(body, m.content);
  reasoning.hidden = !m.reasoning;
  reasoning.querySelector("summary").textContent = "Reasoning";
  reasoning.querySelector(".text").textContent = m.reasoning ?? "";
  r.item.append(...endOf(m, index));
}

/* The next answer, or the rest of `begun`, the last one. */
async function answer(c, begun) {
  const m = begun ?? { role: "assistant", content: "" };
  const before = c.messages.slice();
  if (begun === undefined)
    c.messages.push(m);
  m.stats = { tokens: 0, ms: 0 };
  delete m.note;
  delete m.error;
  m.cut = false;
  const r = running = { abort: new AbortController(), conversation: c, message: m, item: null, began: performance.now(), progress: "", planned: false };
  showMessages();
  showRunning();
  toEnd();
  $("say").textContent = "The model answers.";
  const saver = setInterval(() => keep(c), SAVE_MS);
  keep(c);
  try {
    const [path, body] = requestOf(c, before, begun !== undefined);
    const response = await ask(path, body, r.abort.signal);
    const ended = await readEvents(response, (event) => {
      take(r, event);
      showLater(r);
    }, (text) => {
      r.progress = text === "ping" ? "" : text;
      showLater(r);
    });
    if (!ended)
      m.error = "The connection was lost before the answer was complete.";
    m.cut = m.cut || !ended;
  } catch (e) {
    m.cut = true;
    if (e.name === "AbortError")
      m.note = "Stopped.";
    else
      m.error = e instanceof Refused ? e.message : "The answer could not be read: " + e.message;
  }
  clearInterval(saver);
  running = null;
  c.changed = Date.now();
  keep(c);
  if (current === c) {
    const follow = atEnd();
    endMessage(r, c.messages.indexOf(m));
    if (follow)
      toEnd();
  }
  showConversations();
  showRunning();
  $("say").textContent = m.error ?? (m.content + (m.note ? " " + m.note : ""));
  if (mapShown())
    lookAtMemory();
  lookAtHealth();
}

/* The beginning of a text, as whole words where it has some. */
function titleOf(text) {
  const all = [...text.trim().replace(/\s+/g, " ")];
  if (all.length <= TITLE)
    return all.join("");
  const cut = all.slice(0, TITLE), blank = cut.lastIndexOf(" ");
  return cut.slice(0, blank > 0 ? blank : TITLE).join("") + "…";
}

function send(text, seen) {
  if (running !== null || text.trim() === "")
    return false;
  const c = current;
  if (c.title === "")
    c.title = titleOf(text);
  c.messages.push(seen.length > 0 ? { role: "user", content: text, pictures: seen } : { role: "user", content: text });
  c.changed = Date.now();
  notice("");
  save(c);
  showConversations();
  answer(c);
  return true;
}

function goOn(m) {
  if (running === null && current.messages[current.messages.length - 1] === m)
    answer(current, m);
  $("prompt").focus();
}

function regenerate() {
  if (running !== null)
    return;
  const c = current;
  while (c.messages.length > 0 && c.messages[c.messages.length - 1].role === "assistant")
    c.messages.pop();
  if (c.messages.length > 0)
    answer(c);
  $("prompt").focus();
}

/* A message of the user anew: what came behind it goes. */
function edit(item, index) {
  if (running !== null)
    return;
  const m = current.messages[index];
  const text = element("textarea", { rows: Math.min(m.content.split("\n").length + 1, 12), "aria-label": "Edit the message" });
  text.value = m.content;
  const done = (take) => {
    if (take && text.value.trim() !== "" && running === null) {
      current.messages.length = index;
      send(text.value, (m.pictures ?? []).filter((p) => pictures.urlOf(p) !== undefined));
    } else {
      showMessages();
    }
    $("prompt").focus();
  };
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape")
      done(false);
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      done(true);
    }
  });
  item.replaceChildren(element("div", { class: "editing" }, text, element("div", {},
    element("button", { type: "button", class: "ghost", onclick: () => done(false) }, "Cancel"), " ",
    element("button", { type: "button", class: "primary", onclick: () => done(true) }, "Send"))));
  text.focus();
}

function stop() {
  if (running !== null)
    running.abort.abort();
}

/* --- settings */

function takeTheme() {
  if (settings.theme === "")
    delete document.documentElement.dataset.theme;
  else
    document.documentElement.dataset.theme = settings.theme;
  map.redraw();
}

function openSettings() {
  $("system").value = current.system;
  $("theme").value = settings.theme;
  $("settings-key").value = api;
  for (const input of document.querySelectorAll("[data-field]"))
    input.value = settings.sampling[input.dataset.field] ?? "";
  $("settings").showModal();
}

/* What is out of bounds is kept as it is: the server says what it expects. */
function takeSettings() {
  for (const input of document.querySelectorAll("[data-field]"))
    settings.sampling[input.dataset.field] = input.value;
  store.saveSettings(settings);
  if (current.system !== $("system").value) {
    current.system = $("system").value;
    save(current);
  }
  if (api !== $("settings-key").value.trim())
    takeKey($("settings-key").value);
}

function grow() {
  const p = $("prompt");
  p.style.height = "auto";
  p.style.height = Math.min(p.scrollHeight + 2, innerHeight * 0.4) + "px";
}

function listen() {
  const on = (id, event, f) => $(id).addEventListener(event, f);
  on("form", "submit", (event) => {
    event.preventDefault();
    if (running === null && $("prompt").value.trim() !== "" && send($("prompt").value, pictures.taken())) {
      $("prompt").value = "";
      grow();
    }
  });
  on("prompt", "input", grow);
  on("prompt", "keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      $("form").requestSubmit();
    }
  });
  pictures.begin($("pictures"), ask, notice);
  on("attach", "click", () => $("files").click());
  on("files", "change", () => {
    pictures.files($("files").files);
    $("files").value = "";
    $("prompt").focus();
  });
  on("prompt", "paste", (event) => {
    if (sees && pictures.files(event.clipboardData.files))
      event.preventDefault();
  });
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files"))
      event.preventDefault(); /* else the browser opens the file in place of the page */
  });
  document.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length === 0)
      return;
    event.preventDefault();
    if (sees)
      pictures.files(event.dataTransfer.files);
    else
      notice("This server's model has no vision tower (model.vision): it reads texts only.");
  });
  on("stop", "click", () => {
    stop();
    $("prompt").focus();
  });
  on("new", "click", begin);
  on("open-list", "click", () => showList(!$("side").classList.contains("shown")));
  on("open-map", "click", () => showMap(!mapShown()));
  on("close-map", "click", () => {
    showMap(false);
    $("open-map").focus();
  });
  on("open-settings", "click", openSettings);
  on("settings", "close", takeSettings);
  on("theme", "change", () => {
    settings.theme = $("theme").value;
    takeTheme();
  });
  on("reset", "click", () => {
    for (const input of document.querySelectorAll("[data-field]"))
      input.value = "";
  });
  on("ask-no", "click", () => $("ask").close("no"));
  on("key-form", "submit", (event) => {
    event.preventDefault();
    takeKey($("key").value);
    $("key").value = "";
    $("prompt").focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || $("settings").open || $("ask").open || event.defaultPrevented)
      return;
    if ($("side").classList.contains("shown")) {
      showList(false);
      $("open-list").focus();
    } else {
      stop();
    }
  });
  addEventListener("pagehide", () => {
    if (running !== null)
      keep(running.conversation);
  });
  addEventListener("resize", map.redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", map.redraw);
  /* Another tab has changed it. */
  store.watch((id) => {
    store.load(running?.conversation);
    const was = current;
    current = store.get(was.id) ?? (id === was.id || id === null ? store.list()[0] ?? store.create() : was);
    showConversations();
    if (current !== was && (id === was.id || id === null))
      showMessages();
  });
}

/* --- */

function tick(every, f) {
  f();
  setInterval(() => {
    if (document.visibilityState === "visible")
      f();
  }, every);
}

store.load();
takeTheme();
listen();
current = store.get(settings.last) ?? store.list()[0] ?? store.create();
open(current);
showMap(settings.map ?? matchMedia("(min-width: 1181px)").matches);
tick(HEALTH_MS, async () => {
  await lookAtHealth();
  if (!known && healthy && $("key-form").hidden)
    await lookAtModel();
});
tick(POLL_MS, () => {
  if (mapShown() && $("key-form").hidden)
    lookAtMemory();
});
