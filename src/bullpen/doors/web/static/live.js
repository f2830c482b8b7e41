"use strict";
// Keeps an open page up to date: replaces only the pieces that changed.
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const skew = Number(root.dataset.now) - Date.now();
let scale = 1;

// --- pieces -----------------------------------------------------------------------------------
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  return template.content.firstElementChild;
}

// Whether a form in this piece was edited: then the piece is not replaced.
function isInUse(piece) {
  return [...piece.querySelectorAll("input, textarea, select")].some((field) =>
    field.type === "checkbox" ? field.checked !== field.defaultChecked
      : field.tagName === "SELECT" ? [...field.options].some((o) => o.selected !== o.defaultSelected)
        : field.value !== field.defaultValue);
}

// The pieces of the page as first rendered and as sent since, by id. A piece is replaced only if it
// differs, even when the server sends all of them again.
const drawn = new Map([...document.querySelectorAll("main [id], nav [id]")].map((each) => [each.id, each.outerHTML]));
const sent = new Map();
// Pieces that came while somebody was writing in their place.
const held = new Map();

function isShown(id, html, fresh) {
  return sent.has(id) ? sent.get(id) === html : drawn.get(id) === fresh.outerHTML;
}

function replace(old, html) {
  const fresh = parsed(html);
  const shown = isShown(fresh.id, html, fresh);
  held.delete(fresh.id);
  if (!shown && isInUse(old)) { held.set(fresh.id, html); return; }
  sent.set(fresh.id, html);
  if (shown) return;
  const inside = (piece) => [piece, ...piece.querySelectorAll("*")];
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  const focused = inside(old).indexOf(document.activeElement);
  const seen = inside(old).filter((each) => each.matches(".canvas")).map((each) => [each.scrollLeft, each.scrollTop]);
  old.replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((each, number) => { each.open = Boolean(open[number]); });
  if (focused >= 0) inside(fresh)[focused]?.focus?.({ preventScroll: true });
  if (scale !== 1 && fresh.querySelector("[data-zooms]")) zoom(scale);
  inside(fresh).filter((each) => each.matches(".canvas")).forEach((each, number) => {
    if (seen[number]) [each.scrollLeft, each.scrollTop] = seen[number];
  });
}

function insert(html) {
  const fresh = html && parsed(html);
  if (fresh) sent.set(fresh.id, html);
  return fresh;
}

function remove(piece) {
  if (piece) { sent.delete(piece.id); held.delete(piece.id); drawn.delete(piece.id); piece.remove(); }
}

function arrange(list, ids, pieces) {
  let place = list.firstElementChild;
  for (const id of ids) {
    if (place && place.id === id) { place = place.nextElementSibling; continue; }
    const piece = byId(id) || insert(pieces[id]);
    if (piece) list.insertBefore(piece, place);
  }
}

function show(update) {
  const pieces = update.set || {};
  // Who reads the end of a list goes on to read the end.
  const atEnd = [...document.querySelectorAll("[data-follows]")].filter((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 30);
  for (const [id, html] of Object.entries(pieces)) {
    const old = byId(id);
    if (old) replace(old, html);
  }
  for (const [id, ids] of Object.entries(update.order || {})) {
    const list = byId(id);
    if (!list) continue;
    const wanted = new Set(ids);
    // Remove pieces that are in no list any more; those in another list are moved there below.
    [...list.children].forEach((each) => { if (!wanted.has(each.id) && !pieces[each.id]) remove(each); });
    arrange(list, ids, pieces);
  }
  for (const id of update.gone || []) remove(byId(id));
  for (const box of atEnd) box.scrollTop = box.scrollHeight;
  tick();
  document.dispatchEvent(new Event("shown"));
}

// --- times ------------------------------------------------------------------------------------
function age(ms) {
  const seconds = Math.max(0, Math.floor(((Number(root.dataset.frozen) || Date.now() + skew) - ms) / 1000));
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "m"]]) if (seconds >= size) return Math.floor(seconds / size) + unit;
  return seconds + "s";
}

function tick() {
  for (const [id, html] of [...held]) if (byId(id)) replace(byId(id), html);
  for (const each of document.querySelectorAll("time[data-since]")) {
    const words = age(Number(each.dataset.since));
    if (each.textContent !== words) each.textContent = words;
  }
}

// --- the stream -------------------------------------------------------------------------------
let source = null;
let waits = byId("waits")?.textContent;
function say(text, live) {
  byId("link").textContent = text;
  byId("link").classList.toggle("live", Boolean(live));
}
function connect() {
  if (source || !root.dataset.stream || (document.hidden && !keeps)) return;
  source = new EventSource(root.dataset.stream);
  source.onopen = () => say("live", true);
  source.onerror = () => {
    say("disconnected, reconnecting");
    if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(connect, 3000); }
  };
  source.onmessage = (message) => {
    const update = JSON.parse(message.data);
    if (update.over) { say(update.over); source.close(); return; }
    show(update);
    const now = byId("waits")?.textContent;
    if (now !== waits) byId("heard").textContent = waits = now;
  };
}
function leave() { source?.close(); source = null; }
// Browsers limit connections per server. Of all hidden pages one keeps its stream, to count what waits.
let keeps = false, release = null;
function hide() {
  if (!navigator.locks) { leave(); return; }
  const turn = new AbortController();
  release = () => { turn.abort(); release = null; };
  navigator.locks.request("bullpen-hidden", { ifAvailable: true }, (lock) => {
    if (!lock || turn.signal.aborted) { if (document.hidden) leave(); return null; }
    keeps = true;
    return new Promise((done) => { release = () => { keeps = false; release = null; done(); }; });
  });
}
document.addEventListener("visibilitychange", () => { if (document.hidden) hide(); else { release?.(); connect(); } });
addEventListener("pagehide", leave);
addEventListener("pageshow", connect);

// --- zoom -------------------------------------------------------------------------------------
function zoom(to) {
  const canvas = document.querySelector("[data-zooms]");
  const svg = canvas?.querySelector("svg");
  if (!svg) return;
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  if (to === "fit") to = Math.min(canvas.clientWidth / width, canvas.clientHeight / height, 1);
  const before = scale;
  scale = Math.min(4, Math.max(0.05, to));
  const [x, y] = [canvas.scrollLeft + canvas.clientWidth / 2, canvas.scrollTop + canvas.clientHeight / 2];
  svg.setAttribute("width", Math.round(width * scale));
  svg.setAttribute("height", Math.round(height * scale));
  canvas.scrollLeft = (x * scale) / before - canvas.clientWidth / 2;
  canvas.scrollTop = (y * scale) / before - canvas.clientHeight / 2;
}
const steps = { in: () => scale * 1.25, out: () => scale / 1.25, fit: () => "fit", one: () => 1 };
document.addEventListener("click", (event) => {
  const step = event.target.dataset?.zoom;
  if (step) zoom(steps[step]());
});
document.addEventListener("keydown", (event) => {
  if (!event.target.closest?.("[data-zooms]") || event.ctrlKey || event.metaKey) return;
  const step = { "+": "in", "=": "in", "-": "out", 0: "fit", 1: "one" }[event.key];
  if (step) { zoom(steps[step]()); event.preventDefault(); }
});
document.addEventListener("wheel", (event) => {
  if (!event.ctrlKey || !event.target.closest?.("[data-zooms]")) return;
  zoom(scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  event.preventDefault();
}, { passive: false });

// --- begin ------------------------------------------------------------------------------------
const theme = byId("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  root.dataset.theme = getComputedStyle(root).colorScheme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch (error) { /* Then it applies to this page only. */ }
});
document.querySelectorAll(".zoom").forEach((each) => { each.hidden = false; });
document.querySelectorAll("[data-follows]").forEach((each) => { each.scrollTop = each.scrollHeight; });
tick();
setInterval(tick, 1000);
connect();
