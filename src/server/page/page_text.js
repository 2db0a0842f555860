/* A model's text as elements: paragraphs, headings, lists, quotes, tables, code, bold, italic, addresses. All of
 * it goes through text nodes: nothing that a model writes becomes markup of its own. */

import { coloured } from "./page_code.js";

export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on"))
      e.addEventListener(key.slice(2), value);
    else if (value === true)
      e.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined)
      e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

export function icon(path) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  const p = document.createElementNS(ns, "path");
  p.setAttribute("d", path);
  svg.append(p);
  return svg;
}

const INLINE = /(`+)(.+?)\1(?!`)|\*\*(?=\S)(.+?\S|\S)\*\*|(?<![\w*])\*(?=[^\s*])(.+?[^\s*]|[^\s*])\*(?![\w*])|(?<!\w)_(?=\S)(.+?\S|\S)_(?!\w)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}])/s;

/* An address is opened by a click only, and its page is not told from where. */
function link(address) {
  return element("a", { href: address, rel: "noopener noreferrer nofollow", target: "_blank" }, address);
}

const MOST_INLINE = 20000; /* characters of one block in which marks are looked for */

function inline(to, text) {
  if (text.length > MOST_INLINE) {
    to.append(text);
    return to;
  }
  for (;;) {
    const m = INLINE.exec(text);
    if (m === null) {
      to.append(text);
      return to;
    }
    to.append(text.slice(0, m.index));
    if (m[1] !== undefined)
      to.append(element("code", {}, m[2].length > 2 && m[2].startsWith(" ") && m[2].endsWith(" ") ? m[2].slice(1, -1) : m[2]));
    else if (m[3] !== undefined)
      to.append(inline(element("strong"), m[3]));
    else if (m[4] !== undefined || m[5] !== undefined)
      to.append(inline(element("em"), m[4] ?? m[5]));
    else if (m[7] !== undefined)
      to.append(inline(element("span"), m[6]), " (", link(m[7]), ")");
    else
      to.append(link(m[8]));
    text = text.slice(m.index + m[0].length);
  }
}

/* --- blocks: {kind, lines, ..}, in order; each is made of lines of its own */

const FENCE = /^ {0,3}(```+|~~~+)\s*([^`\s]*)[^`]*$/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ROW = /^\s*\|.*\|\s*$/;

function starts(line) {
  return line.trim() === "" || FENCE.test(line) || HEADING.test(line) || RULE.test(line) || ITEM.test(line) || /^ {0,3}>/.test(line);
}

function split(text) {
  const lines = text.split("\n");
  const blocks = [];
  let i = 0;
  const take = (kind, more, keep) => {
    const from = i++;
    while (i < lines.length && more(lines[i]))
      i++;
    blocks.push({ kind, lines: lines.slice(from, i), ...keep });
  };
  while (i < lines.length) {
    const line = lines[i];
    const fence = FENCE.exec(line);
    if (line.trim() === "") {
      i++;
    } else if (fence !== null) {
      const end = new RegExp("^ {0,3}" + fence[1][0] + "{" + fence[1].length + ",}\\s*$");
      take("code", (l) => !end.test(l), { language: fence[2], closed: false });
      blocks[blocks.length - 1].closed = i < lines.length;
      i++;
    } else if (RULE.test(line)) {
      take("rule", () => false);
    } else if (HEADING.test(line)) {
      take("heading", () => false);
    } else if (/^ {0,3}>/.test(line)) {
      take("quote", (l) => /^ {0,3}>/.test(l));
    } else if (ITEM.test(line)) {
      /* Blank lines belong to the list where it goes on behind them. */
      take("list", (l) => l.trim() !== "" ? ITEM.test(l) || /^\s/.test(l) : i + 1 < lines.length && (ITEM.test(lines[i + 1]) || /^\s+\S/.test(lines[i + 1])));
    } else if (ROW.test(line) && i + 1 < lines.length && /^[\s|:-]+$/.test(lines[i + 1]) && lines[i + 1].includes("-")) {
      take("table", (l) => ROW.test(l) || /^[\s|:-]+$/.test(l) && l.includes("|"));
    } else {
      take("text", (l) => !starts(l));
    }
  }
  return blocks;
}

function list(lines) {
  const first = ITEM.exec(lines[0]);
  const to = element(first[2] !== undefined ? "ol" : "ul", { start: first[2] !== undefined && first[2] !== "1" ? first[2] : null });
  const depth = first[1].length;
  let item = null, inner = [];
  const end = () => {
    if (item === null)
      return;
    const nested = inner.findIndex((l) => ITEM.test(l) || FENCE.test(l) || l.trim() === "");
    const own = nested < 0 ? inner : inner.slice(0, nested);
    inline(item, own.map((l) => l.trim()).join(" "));
    if (nested >= 0) {
      const rest = inner.slice(nested);
      const margin = Math.min(...rest.filter((l) => l.trim() !== "").map((l) => /^\s*/.exec(l)[0].length), 12);
      item.append(...split(rest.map((l) => l.slice(margin)).join("\n")).map(build));
    }
  };
  for (const line of lines) {
    const m = ITEM.exec(line);
    if (m !== null && m[1].length <= depth + 1) {
      end();
      to.append(item = element("li"));
      inner = [m[3]];
    } else {
      inner.push(line);
    }
  }
  end();
  return to;
}

function code(block) {
  const text = block.lines.slice(1).join("\n");
  const button = element("button", { type: "button", onclick: () => copy(text, button) }, "Copy");
  return element("div", { class: "code" }, element("div", {}, element("span", {}, block.language || "text"), button),
    element("pre", { tabindex: "0" }, element("code", {}, ...coloured(text, block.language).map(([name, part]) => name === null ? part : element("span", { class: name }, part)))));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());
  const row = (name, line) => element("tr", {}, ...cells(line).map((c) => inline(element(name), c)));
  return element("table", {}, element("thead", {}, row("th", lines[0])), element("tbody", {}, ...lines.slice(2).map((l) => row("td", l))));
}

function build(block) {
  const { kind, lines } = block;
  if (kind === "code")
    return code(block);
  if (kind === "rule")
    return element("hr");
  if (kind === "heading")
    return inline(element("h4"), HEADING.exec(lines[0])[2]);
  if (kind === "quote")
    return element("blockquote", {}, ...split(lines.map((l) => l.replace(/^ {0,3}> ?/, "")).join("\n")).map(build));
  if (kind === "list")
    return list(lines);
  if (kind === "table")
    return table(lines);
  return inline(element("p"), lines.map((l) => l.replace(/ +$/, "")).join("\n"));
}

/* Shows the text in `to`; of a text that grows only the blocks that have changed are made again. */
export function show(to, text) {
  const blocks = split(text);
  const had = to.shownBlocks ?? [];
  let same = 0;
  const key = blocks.map((b) => b.kind + "\n" + b.lines.join("\n"));
  while (same < had.length && same < key.length && had[same] === key[same])
    same++;
  while (to.childNodes.length > same)
    to.lastChild.remove();
  to.append(...blocks.slice(same).map(build));
  to.shownBlocks = key;
}

export async function copy(text, button) {
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed"; /* browsers want https or localhost for it */
  }
  setTimeout(() => { button.textContent = was; }, 1500);
}
