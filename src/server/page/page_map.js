/* The map of the server's memory, from /memory: the plan's arenas to scale, the blocks of the caches and who
 * holds them, the audit. What is shown is what the last answer said. */
import { element } from "./page_text.js";

const HISTORY = 300, SHORT = 60; /* answers that the line of the audit shows */
const COLOURS = 8;   /* of requests: .s0 .. in page.css */
const MOST_CELLS = 6000;

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const history = [];
let last = null;
const ours = new Set();  /* ids of answers that this page asks for */
let shown = "";          /* of them, the newest of the conversation that is shown; "": none */

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0, v = Math.abs(bytes);
  for (; v >= 1024 && i + 1 < units.length; i++)
    v /= 1024;
  return (bytes < 0 ? "−" : "") + (i === 0 ? v : v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)) + " " + units[i];
}

const signed = (bytes) => (bytes >= 0 ? "+" : "") + size(bytes);
const percent = (part, whole) => whole > 0 ? 100 * part / whole : 0;

export function mark(id) {
  ours.add(id);
  if (ours.size > 64)
    ours.delete(ours.values().next().value);
}

/* The blocks of this answer are marked; "": of none. */
export function watch(id) {
  if (shown === id)
    return;
  shown = id;
  redraw();
}

/* Children of `to` in place of those that are there, unless they would look the same. */
function put(to, ...children) {
  const made = element("div", {}, ...children);
  if (to.shown === undefined || !made.isEqualNode(to.shown)) {
    to.shown = made.cloneNode(true);
    to.replaceChildren(...made.childNodes);
    return true;
  }
  return false;
}

/* --- arenas */

const KNOWN = new Set(["weights", "kv", "scratch", "exchange", "staging", "engine", "edge", "grammars", "driver"]);

function kindOf(arena, places) {
  return KNOWN.has(arena) ? arena : arena.startsWith("spill") ? "spill" : places.has(arena) ? "device" : "other";
}

function placeOf(name, rows, scale, places) {
  const total = rows.reduce((n, r) => n + r.planned, 0);
  const bar = element("div", { class: "bar", role: "img", "aria-label": name + ": " + rows.map((r) => r.arena + " " + size(r.planned)).join(", ") });
  const body = element("tbody");
  const widths = [];
  for (const r of rows) {
    const kind = kindOf(r.arena, places);
    const used = element("i");
    const part = element("span", { class: "a-" + kind, title: `${r.arena}: ${size(r.planned)} planned, ${r.used > 0 ? size(r.used) + " used at most" : "not used yet"}` }, used);
    widths.push([part, percent(r.planned, scale)], [used, percent(r.used, r.planned)]);
    bar.append(part);
    body.append(element("tr", { "data-arena": r.arena, "data-bytes": r.planned },
      element("td", {}, element("span", { class: "swatch a-" + kind }), kind === "device" ? r.arena + ", as above" : r.arena),
      element("td", {}, size(r.planned)), element("td", {}, size(r.allocated)), element("td", {}, r.used > 0 ? size(r.used) : "–")));
  }
  body.append(element("tr", { class: "total" }, element("td", {}, "together"), element("td", {}, size(total)),
    element("td", {}, size(rows.reduce((n, r) => n + r.allocated, 0))), element("td")));
  const budget = rows[0].budget;
  const box = element("div", { class: "place", "data-place": name },
    element("p", {}, element("b", {}, name), element("span", { class: "hint" }, budget > 0 ? `${size(total)} of ${size(budget)} that it may take` : size(total))),
    bar, element("table", {}, element("thead", {}, element("tr", {},
      element("th", { scope: "col" }, "arena"), element("th", { scope: "col" }, "planned"), element("th", { scope: "col" }, "allocated"),
      element("th", { scope: "col", title: "The most that was in use" }, "peak"))), body));
  return { box, widths };
}

function showPlaces(arenas) {
  const places = new Map();
  for (const r of arenas)
    places.set(r.place, [...(places.get(r.place) ?? []), r]);
  const scale = Math.max(...[...places.values()].map((rows) => rows.reduce((n, r) => n + r.planned, 0)), 1);
  const made = [...places].map(([name, rows]) => placeOf(name, rows, scale, places));
  if (!put($("places"), ...made.map((m) => m.box)))
    return;
  /* Widths are set here, on the elements that are shown: the policy of the page allows no style attributes. */
  for (const m of made)
    for (const [part, width] of m.widths)
      part.style.width = width + "%";
}

/* --- blocks */

const colourOf = (request) => "s" + request % COLOURS;

/* Colours as the style sheet has them now. */
function colours(classes) {
  const probe = element("span", { class: "hidden" });
  document.body.append(probe);
  const out = new Map(classes.map((name) => {
    probe.className = "hidden " + name;
    return [name, getComputedStyle(probe).backgroundColor];
  }));
  probe.remove();
  return out;
}

/* What a cell that stands for several blocks shows: a held one before a cached one before a free one. */
function cells(cache) {
  const each = Math.ceil(cache.blocks / MOST_CELLS);
  const out = new Array(Math.ceil(cache.blocks / each)).fill("free");
  let at = 0;
  for (const [n, state, request] of cache.runs) {
    const name = state === "held" ? colourOf(request) : state;
    for (let i = Math.floor(at / each); i * each < at + n; i++)
      if (out[i] === "free" || (out[i] === "cached" && state === "held"))
        out[i] = name;
    at += n;
  }
  return { each, out };
}

function draw(canvas, cache) {
  const { out } = cells(cache);
  const width = Math.max(canvas.clientWidth, 100);
  let cell = 18;
  while (cell > 4 && Math.ceil(out.length / Math.floor(width / cell)) * cell > 240)
    cell--;
  const columns = Math.max(Math.floor(width / cell), 1), gap = cell > 7 ? 2 : 1, ratio = devicePixelRatio;
  const height = Math.ceil(out.length / columns) * cell;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  const g = canvas.getContext("2d");
  const colour = colours(["free-cell", "cached-cell", ...Array.from({ length: COLOURS }, (_, i) => "s" + i)]);
  g.scale(ratio, ratio);
  out.forEach((name, i) => {
    const x = i % columns * cell, y = Math.floor(i / columns) * cell, side = cell - gap;
    g.fillStyle = colour.get(name === "free" ? "free-cell" : name === "cached" ? "cached-cell" : name);
    if (name !== "cached" || side < 6) {
      g.fillRect(x, y, side, side);
      return;
    }
    /* Cached: a frame and a stroke, so that it does not take colour to tell. */
    g.strokeStyle = g.fillStyle;
    g.lineWidth = 1.5;
    g.strokeRect(x + 0.75, y + 0.75, side - 1.5, side - 1.5);
    g.beginPath();
    g.moveTo(x + 1, y + side - 1);
    g.lineTo(x + side - 1, y + 1);
    g.stroke();
  });
}

/* Held blocks by the request that came last to them. */
function holders(cache) {
  const by = new Map();
  for (const [n, state, request, holders] of cache.runs)
    if (state === "held") {
      const h = by.get(request) ?? { blocks: 0, shared: 0 };
      h.blocks += n;
      h.shared += holders > 1 ? n : 0;
      by.set(request, h);
    }
  return by;
}

const isShown = (request, requests) => shown !== "" && requests.some((r) => r.request === request && r.id === shown);

function nameOf(request, requests, paged) {
  const r = requests.find((q) => q.request === request);
  if (r === undefined)
    return "request " + request;
  const who = r.id === shown ? "this conversation" : ours.has(r.id) ? "this page" : r.id;
  const more = paged && r.reserved > 0 ? `, ${number.format(r.reserved)} more blocks reserved` : "";
  return `${who}: ${number.format(r.computed_tokens + r.generated_tokens)} of ${number.format(r.prompt_tokens + r.max_tokens)} tokens${more}`;
}

function cacheOf(c, requests) {
  const by = holders(c);
  const what = c.block_tokens > 0 ? `${c.block_tokens} tokens, ${size(c.block_bytes)} each` : `a state of ${size(c.block_bytes)} each`;
  const { each } = cells(c);
  const row = (key, swatch, text, n, more) => element("tr", { "data-blocks": key, "data-count": n, class: isShown(key, requests) ? "mine" : null },
    element("td", {}, element("span", { class: "swatch " + swatch }), text), element("td", {}, number.format(n)), element("td", {}, more));
  const bytes = (n) => size(n * c.block_bytes);
  const paged = c.kind === "paged", reserved = paged ? requests.reduce((n, r) => n + r.reserved, 0) : 0;
  const canvas = element("canvas", { role: "img", "aria-label": `${c.blocks} blocks: ${c.held} held, ${c.cached} cached, ${c.free} free` });
  return { canvas, cache: c, box: element("div", { class: "cache", "data-cache": c.name },
    element("p", {}, element("b", {}, c.name), ` ${number.format(c.blocks)} blocks of ${what}`),
    each > 1 ? element("p", { class: "hint" }, `A cell stands for ${each} blocks.`) : null,
    canvas,
    element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "holder"), element("th", { scope: "col" }, "blocks"), element("th", { scope: "col" }, "bytes"))),
      element("tbody", {}, ...[...by].map(([request, h]) => row(request, colourOf(request), nameOf(request, requests, paged) + (h.shared > 0 ? ` (${h.shared} shared)` : ""), h.blocks, bytes(h.blocks))),
        paged || c.cached > 0 ? row("cached", "cached", paged ? "cached prefixes" : "cached", c.cached, bytes(c.cached)) : null,
        row("free", "free", reserved > 0 ? `free (${number.format(reserved)} blocks are reserved)` : "free", c.free, bytes(c.free))))) };
}

function showCaches(m) {
  const made = m.caches.map((c) => cacheOf(c, m.requests));
  const waiting = m.requests.filter((r) => r.state === "waiting").length;
  const text = [];
  if (waiting > 0)
    text.push(waiting + (waiting === 1 ? " request waits" : " requests wait") + " for a place.");
  if (m.prefix_hits > 0)
    text.push(`${number.format(m.prefix_hits)} prompts began behind a cached prefix: ${number.format(m.prefix_tokens)} tokens were not computed again.`);
  const fresh = put($("caches"), ...made.map((c) => c.box), text.length > 0 ? element("p", { class: "hint" }, text.join(" ")) : null);
  const shown = $("caches").querySelectorAll("canvas");
  made.forEach((c, i) => {
    const key = JSON.stringify(c.cache.runs);
    const canvas = shown[i];
    if (fresh || canvas.drawn !== key)
      draw(canvas, c.cache);
    canvas.drawn = key;
  });
}

/* --- audit */

/* Private memory by the kernel over the last minutes, below the plan. */
function line() {
  const ns = "http://www.w3.org/2000/svg", most = Math.max(...history.map((h) => Math.max(h.planned, h.kernel)), 1) * 1.08;
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "line");
  const span = Math.max(history.length, SHORT);
  svg.setAttribute("viewBox", `0 0 ${span} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Private memory of the process since this page was opened: ${size(history[0].kernel)} at first, ${size(history[history.length - 1].kernel)} now`);
  for (const key of ["planned", "kernel"]) {
    const p = document.createElementNS(ns, "polyline");
    const points = history.map((h, i) => `${span - history.length + i + 1},${(100 - 100 * h[key] / most).toFixed(1)}`);
    if (points.length === 1)
      points.unshift(points[0].replace(/^\d+/, String(span - 1)));
    p.setAttribute("points", points.join(" "));
    p.setAttribute("class", key);
    svg.append(p);
  }
  return svg;
}

function showAudit(m) {
  const a = m.audit, e = m.edge_pool;
  const row = (text, n, sign) => element("tr", {}, element("td", {}, text), element("td", {}, (sign ?? "") + size(n)));
  const gpus = a.gpus.map((g) => element("p", {}, element("b", {}, g.name), ` ${size(g.planned)} planned` +
    (g.driver > 0 ? `, ${size(g.driver)} taken by its driver's count` : "") + (g.kernel !== null ? `, ${size(g.kernel)} by the kernel's` : "") +
    `; grown since the seal: ${signed(g.grown)}`));
  put($("audit"), line(),
    element("p", { class: "hint" }, "Solid: private memory by the kernel. Dashed: the plan of the host."),
    element("table", {}, element("tbody", {},
      row("planned", a.planned), row("not in RAM yet, or swapped out", a.not_in_ram, "− "), row("there before the start", a.before, "+ "),
      element("tr", {}, element("td", {}, "libraries, drivers, the program around it"), element("td", {}, (a.others < 0 ? "" : "+ ") + size(a.others))),
      element("tr", { class: "total" }, element("td", {}, "private memory by the kernel"), element("td", {}, size(a.kernel))),
      row("pinned for GPUs beside it", a.pinned))),
    ...gpus,
    element("p", { class: "hint" }, `Server's own pool (edge): ${size(e.used)} in use, ${size(e.peak)} at most, of ${size(e.bytes)}; exhausted ${number.format(e.failures)} times.`));
}

function showVerdict(m) {
  const a = m.audit, right = a.wrong === "" && a.gpus.every((g) => g.grown <= 0 || a.wrong === "");
  $("verdict").className = right ? "verdict" : "verdict bad";
  put($("verdict"), element("span", { class: "mark", "aria-hidden": "true" }, right ? "✓" : "!"),
    element("span", {}, element("strong", {}, right ? `Grown since the start: ${signed(a.grown)}` : a.wrong),
      element("span", { class: "hint" }, "All memory was taken at the start; requests take blocks of it and give them back.")));
}

/* --- for page.js */

/* m: the answer of /memory. */
export function show(m) {
  last = m;
  history.push({ planned: m.audit.planned, kernel: m.audit.kernel });
  if (history.length > HISTORY)
    history.shift();
  $("map-error").hidden = true;
  $("map-body").hidden = false;
  $("map-plan").textContent = m.plan.slice(0, 12);
  $("map-plan").title = "plan " + m.plan;
  showVerdict(m);
  showPlaces(m.arenas);
  showCaches(m);
  showAudit(m);
}

export function fail(text) {
  $("map-error").textContent = text;
  $("map-error").hidden = false;
}

/* After a change of colours or widths. */
export function redraw() {
  if (last === null || $("map-body").hidden)
    return;
  for (const canvas of $("caches").querySelectorAll("canvas"))
    canvas.drawn = "";
  showCaches(last);
}
