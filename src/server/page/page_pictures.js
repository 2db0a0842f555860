/* Pictures: those that wait for the next message (attached, pasted or dropped), and those of messages. The server says how
 * many tokens each of them becomes; what is no picture for it is not taken. */
import { element } from "./page_text.js";

const held = new Map(); /* id -> data: URL, of what this page has taken */
let waiting = [];       /* {id, name, tokens} for the next message */
let place = null, ask = null, tell = null;

/* Of a picture of a message; undefined: it was too large to be kept, and the page has been closed since. */
export const urlOf = (p) => p.url ?? held.get(p.id);

export const preview = (p) => urlOf(p) === undefined ? element("span", { class: "gone" }, p.name + " was not kept")
  : element("img", { src: urlOf(p), alt: p.name, title: p.tokens === undefined ? p.name : `${p.name}, ${p.tokens} tokens` });

/* As parts of a message of the API. */
export const partsOf = (pictures) => pictures.map((p) => ({ type: "image_url", image_url: { url: urlOf(p) } }));

function show() {
  place.hidden = waiting.length === 0;
  place.replaceChildren(...waiting.map((p) => element("figure", {}, preview(p),
    element("figcaption", {}, p.tokens === undefined ? "…" : p.tokens + " tokens"),
    element("button", { type: "button", "aria-label": "Remove " + p.name, title: "Remove " + p.name, onclick: () => drop(p) }, "×"))));
}

function drop(p) {
  waiting = waiting.filter((other) => other !== p);
  show();
}

function read(file) {
  return new Promise((f, fail) => {
    const reader = new FileReader();
    reader.onload = () => f(reader.result);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}

async function take(file) {
  const p = { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), name: file.name || "picture" };
  try {
    held.set(p.id, await read(file));
    waiting.push(p);
    show();
    const counted = await (await ask("/tokenize", { messages: [{ role: "user", content: partsOf([p]) }] })).json();
    p.tokens = counted.picture_tokens[0];
    show();
  } catch (e) {
    drop(p);
    tell(p.name + ": " + e.message);
  }
}

/* What the next message has; it waits no longer. */
export function taken() {
  const all = waiting;
  waiting = [];
  show();
  return all.map((p) => ({ ...p, url: urlOf(p) }));
}

/* at: the element for previews; request(path, body), notice(text). files(list) is for the button, a drop and a paste. */
export function begin(at, request, notice) {
  place = at;
  ask = request;
  tell = notice;
}

export function files(list) {
  const all = [...list];
  for (const file of all)
    take(file);
  return all.length > 0;
}
