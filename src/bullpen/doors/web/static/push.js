"use strict";
// Subscribes this browser to pushes: they come when no page is open, also on a phone.
const pushes = byId("push");
const canPush = pushes && window.isSecureContext && "serviceWorker" in navigator && "PushManager" in window;

function bytesOf(text) {
  const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

async function subscribed() {
  const worker = await navigator.serviceWorker.getRegistration("/");
  return worker ? worker.pushManager.getSubscription() : null;
}

async function tellPush(what, subscription) {
  const fields = new URLSearchParams({ csrf: pushes.dataset.csrf, subscription: JSON.stringify(subscription) });
  const answer = await fetch(`/push/${what}`, { method: "POST", body: fields, headers: { Accept: "application/json" } });
  const told = await answer.json();
  if (!answer.ok) throw new Error(`${told.message} ${told.remedy || ""}`);
  return told.note;
}

async function beginPush() {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("The browser does not allow notifications of this page. Allow them in its settings.");
  const answer = await fetch("/push", { headers: { Accept: "application/json" } });
  const told = await answer.json();
  if (!answer.ok) throw new Error(`${told.message} ${told.remedy || ""}`);
  await navigator.serviceWorker.register("/sw.js", { scope: "/" });
  const worker = await navigator.serviceWorker.ready;
  // One of another key, from another home, would be refused when it is used.
  await (await worker.pushManager.getSubscription())?.unsubscribe();
  return tellPush("subscribe", await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytesOf(told.key) }));
}

async function endPush(subscription) {
  const note = await tellPush("unsubscribe", subscription);
  await subscription.unsubscribe();
  return note;
}

async function showPush() {
  if (!canPush) return;
  const on = Boolean(await subscribed());
  pushes.hidden = false;
  pushes.setAttribute("aria-pressed", String(on));
  pushes.querySelector("span").textContent = on ? "Pushing to this device" : "Push to this device";
}

pushes?.addEventListener("click", async () => {
  pushes.disabled = true;
  try {
    const subscription = await subscribed();
    toast(await (subscription ? endPush(subscription) : beginPush()));
  } catch (error) { toast(error.message, true); } finally { pushes.disabled = false; }
  showPush();
});
showPush();
