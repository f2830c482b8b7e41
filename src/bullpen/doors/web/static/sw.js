"use strict";
// Shows what is pushed, and opens its link when somebody taps it. It keeps nothing and answers nothing.
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

// Only pages of ours are opened, whatever a push says.
function ours(link) {
  try {
    const url = new URL(link, self.location.origin);
    return url.origin === self.location.origin ? url.href : self.location.origin + "/";
  } catch (error) { return self.location.origin + "/"; }
}

self.addEventListener("push", (event) => {
  let said = {};
  try { said = event.data.json(); } catch (error) { /* A notice is shown for every push. */ }
  const links = said.actions || {};
  const titles = { allow: "Allow", deny: "Deny" };
  event.waitUntil(self.registration.showNotification(String(said.title || "Bullpen"), {
    body: String(said.words || ""),
    tag: String(said.tag || "bullpen"),
    icon: "/icon.svg",
    requireInteraction: Boolean(links.allow),
    data: { link: said.link || "/", links },
    actions: Object.keys(titles).filter((name) => links[name]).map((name) => ({ action: name, title: titles[name] })),
  }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { link, links } = event.notification.data || {};
  event.waitUntil(self.clients.openWindow(ours((links || {})[event.action] || link || "/")));
});
