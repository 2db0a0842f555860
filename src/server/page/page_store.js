/* Conversations and settings, kept in this browser. Bounded: the conversations that were used least recently
 * go when there are too many, or when the browser has no more room. */
const PREFIX = "stator.conversation.";
const SETTINGS = "stator.settings";
const KEY = "stator.key";
export const MOST = 100; /* conversations */
const MOST_CHARACTERS = 4e6; /* of all together; browsers give about 5e6 */

let held = new Map(); /* id -> conversation */

const validPictures = (all) => Array.isArray(all) && all.every((p) => p !== null && typeof p === "object" && typeof p.name === "string" &&
  (p.url === undefined || (typeof p.url === "string" && p.url.startsWith("data:image/"))));

function valid(c) {
  return c !== null && typeof c === "object" && typeof c.id === "string" && typeof c.title === "string" &&
    Array.isArray(c.messages) && c.messages.every((m) => m !== null && typeof m === "object" && typeof m.content === "string" &&
      (m.role === "user" || m.role === "assistant") && (m.pictures === undefined || validPictures(m.pictures)));
}

function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null; /* what is damaged is not there */
  }
}

/* keep: a conversation that this page is writing, which stays as it is here. */
export function load(keep) {
  held = new Map();
  let names = [];
  try {
    names = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
  } catch { /* no storage in this browser: conversations last as long as the page */ }
  for (const name of names) {
    const c = read(name);
    if (valid(c) && name === PREFIX + c.id)
      held.set(c.id, c);
  }
  if (keep !== undefined)
    held.set(keep.id, keep);
}

/* The newest first. */
export function list() {
  return [...held.values()].sort((a, b) => b.changed - a.changed);
}

export const get = (id) => held.get(id);

export function create() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  const id = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  const c = { id, title: "", system: "", messages: [], changed: Date.now() };
  held.set(id, c);
  return c;
}

function drop(c) {
  held.delete(c.id);
  try {
    localStorage.removeItem(PREFIX + c.id);
  } catch { /* as in load */ }
}

export const remove = drop;

const MOST_PICTURES = 1e6; /* characters of a conversation's pictures; what is beyond lasts as long as the page */

function textOf(c) {
  let room = MOST_PICTURES;
  return JSON.stringify(c, (name, value) => name === "url" && typeof value === "string" && (room -= value.length) < 0 ? undefined : value);
}

/* Saves it. The titles of conversations that had to go; null: it can't be kept at all. */
export function save(c) {
  const gone = [];
  const text = textOf(c);
  if (c.messages.length === 0 && c.system === "" && c.title === "")
    return gone;
  const others = list().filter((o) => o.id !== c.id);
  let total = text.length;
  for (const [i, o] of others.entries()) {
    total += textOf(o).length;
    if (i + 1 >= MOST || total > MOST_CHARACTERS) {
      gone.push(o.title);
      drop(o);
    }
  }
  for (;;) {
    try {
      localStorage.setItem(PREFIX + c.id, text);
      return gone;
    } catch {
      const oldest = list().filter((o) => o.id !== c.id).pop();
      if (oldest === undefined)
        return null;
      gone.push(oldest.title);
      drop(oldest);
    }
  }
}

/* f is called when another tab has changed the conversation of that id (null: all of them); it loads them. */
export function watch(f) {
  addEventListener("storage", (event) => {
    if (event.key === null || event.key.startsWith(PREFIX))
      f(event.key === null ? null : event.key.slice(PREFIX.length));
  });
}

/* {sampling: {field: text}, theme, map} */
export function settings() {
  const s = read(SETTINGS);
  const known = s !== null && typeof s === "object" ? s : {};
  return { sampling: known.sampling ?? {}, theme: known.theme ?? "", map: known.map ?? null, last: known.last ?? "" };
}

export function saveSettings(s) {
  try {
    localStorage.setItem(SETTINGS, JSON.stringify(s));
  } catch { /* they last as long as the page */ }
}

/* The API key stays in its tab. */
export function key() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function saveKey(text) {
  try {
    if (text === "")
      sessionStorage.removeItem(KEY);
    else
      sessionStorage.setItem(KEY, text);
  } catch { /* it lasts as long as the page */ }
}
