"use strict";
// Sends forms without leaving the page, answers requests by one key, and tells what waits.

// --- forms ------------------------------------------------------------------------------------
function toast(text, failed) {
  const said = document.createElement("p");
  said.className = failed ? "toast failed" : "toast";
  said.setAttribute("role", failed ? "alert" : "status");
  said.textContent = text;
  byId("toasts").append(said);
  while (byId("toasts").childElementCount > 4) byId("toasts").firstElementChild.remove();
  setTimeout(() => said.remove(), failed ? 12000 : 6000);
}

async function send(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  const buttons = [...form.querySelectorAll("button")].filter((each) => !each.disabled);
  buttons.forEach((each) => { each.disabled = true; });
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields, headers: { Accept: "application/json" } });
    const told = await answer.json().catch(() => ({ message: `The server answered ${answer.status}.`, remedy: "Load the page again." }));
    if (!answer.ok) { toast(`${told.message} ${told.remedy || ""}`, true); return; }
    toast(told.note);
    form.reset();
    form.closest(".menu, .comment")?.removeAttribute("open");
    home(form);
    if (form.id === "composer") form.elements.text.focus();
  } catch (error) {
    toast(`The server cannot be reached (${error.message}).`, true);
  } finally { buttons.forEach((each) => { each.disabled = false; }); }
}

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method !== "post") return;
  event.preventDefault();
  send(event.target, event.submitter);
});

// In a message Enter sends. Elsewhere with Ctrl, as a text has many lines.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || event.target.tagName !== "TEXTAREA") return;
  const sends = event.target.form.id === "composer" ? !event.shiftKey : event.ctrlKey || event.metaKey;
  if (!sends) return;
  event.preventDefault();
  event.target.form.requestSubmit(event.target.form.querySelector("button:not([type])"));
});

// --- menus ------------------------------------------------------------------------------------
document.addEventListener("toggle", (event) => {
  if (!event.target.matches?.(".menu") || !event.target.open) return;
  document.querySelectorAll(".menu[open]").forEach((each) => { if (each !== event.target) each.open = false; });
  event.target.querySelector(".pop :is(input:not([type=hidden]), textarea, select, button)")?.focus();
}, true);
document.addEventListener("click", (event) => {
  document.querySelectorAll(".menu[open]").forEach((each) => { if (!each.contains(event.target)) each.open = false; });
});

// --- one key answers --------------------------------------------------------------------------
// A request takes keys a moment after it came up: who types without looking must not answer it.
const SETTLE_MS = 700;
let current = null, ready = false, timer = 0;
function asks() { return [...document.querySelectorAll("[data-ask]")]; }
function mark() {
  asks().forEach((each) => {
    each.classList.toggle("current", each === current);
    each.classList.toggle("ready", each === current && ready);
  });
}
function wait(ms) {
  ready = false;
  clearTimeout(timer);
  timer = setTimeout(() => { ready = true; mark(); }, ms);
  mark();
}
function choose(ask, ms) {
  const same = ask?.id === current?.id;
  current = ask || null;
  if (same) mark(); else wait(ms);
}
function settle() { const all = asks(); choose(all.find((each) => each.id === current?.id) || all[0], SETTLE_MS); }
document.addEventListener("focusin", (event) => { const ask = event.target.closest("[data-ask]"); if (ask) choose(ask, 0); });
function isWriting(target) { return target.closest?.("input, textarea, select, [contenteditable]"); }

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const open = document.querySelector(".menu[open]");
  if (event.key === "Escape" && open) { open.open = false; open.querySelector("summary").focus(); return; }
  if (isWriting(event.target)) return;
  if (event.key === "j" || event.key === "k") {
    const all = asks(), to = all[all.indexOf(current) + (event.key === "j" ? 1 : -1)];
    if (to) { choose(to, 0); to.scrollIntoView({ block: "nearest" }); event.preventDefault(); }
    return;
  }
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const links = [...document.querySelectorAll("#team a")];
    const at = links.findIndex((each) => each.hasAttribute("aria-current"));
    if (event.shiftKey && at >= 0) links[at + (event.key === "ArrowDown" ? 1 : -1)]?.click();
    return;
  }
  const button = current?.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (button && ready) { event.preventDefault(); button.click(); } else if (event.key.length === 1) wait(SETTLE_MS);
});

// --- comments on lines ------------------------------------------------------------------------
function home(form) {
  const place = form.closest("tr.writes");
  if (!place) return;
  const file = place.closest(".file");
  file.querySelector(".comment").append(form);
  file.querySelector(".aimed")?.classList.remove("aimed");
  form.querySelector("[data-cancel]").hidden = true;
  form.reset();
  form.elements.quoted.value = "";
  place.remove();
}
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-cancel]")) { home(event.target.form); return; }
  const row = event.target.closest?.(".may-comment .diff tr:not(.hunk, .writes)");
  if (!row || String(getSelection())) return;
  const file = row.closest(".file"), form = file.querySelector("form");
  if (!form) return;
  home(form);
  const [old, fresh, code] = row.cells, place = document.createElement("tr");
  place.className = "writes";
  place.append(document.createElement("td"));
  place.firstChild.colSpan = 3;
  place.firstChild.append(form);
  row.after(place);
  row.classList.add("aimed");
  form.elements.line.value = fresh.textContent || old.textContent;
  form.elements.quoted.value = code.textContent.replace(/^\u2212/, "-");
  form.querySelector("[data-cancel]").hidden = false;
  form.elements.text.focus();
});

// --- what waits -------------------------------------------------------------------------------
const notify = byId("notify");
const title = document.title.replace(/^\(\d+\) /, "");
let waiting = null;
function wants() { try { return localStorage.getItem("notify") === "yes"; } catch (error) { return false; } }
function canNotify() { return "Notification" in window && window.isSecureContext; }
function showNotify() {
  if (!canNotify()) return;
  const on = wants() && Notification.permission === "granted";
  notify.hidden = false;
  notify.setAttribute("aria-pressed", String(on));
  notify.querySelector("span").textContent = on ? "Notifying" : "Notify me";
}
notify.addEventListener("click", async () => {
  const on = wants() && Notification.permission === "granted";
  const granted = on || (await Notification.requestPermission()) === "granted";
  if (!granted) toast("The browser does not allow notifications of this page. Allow them in its settings.", true);
  try { localStorage.setItem("notify", granted && !on ? "yes" : "no"); } catch (error) { /* Then it cannot be remembered. */ }
  if (granted) toast(on ? "Notifications are off." : "You get a notification when something waits for you.");
  showNotify();
});
function tellWaiting() {
  settle();
  const badge = byId("waits");
  if (!badge) return;
  const number = Number(badge.dataset.number);
  document.title = number ? `(${number}) ${title}` : title;
  byId("favicon").href = number ? "/static/icon-waiting.svg" : "/static/icon.svg";
  const more = waiting !== null && number > waiting;
  waiting = number;
  if (more && wants() && canNotify() && Notification.permission === "granted" && !document.hasFocus()) {
    const said = new Notification(`(${number}) ${title}`, { body: badge.dataset.about, tag: "bullpen-waiting", renotify: true });
    said.addEventListener("click", () => { window.focus(); said.close(); });
  }
}
document.addEventListener("shown", tellWaiting);
showNotify();
tellWaiting();
