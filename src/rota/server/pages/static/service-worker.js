// Shows a page of its own while the server cannot be reached. It keeps no page and no job: only that
// page, its style and its icon. The server puts their addresses, KEPT, before this text.
"use strict";

const STORE = "rota-" + KEPT.join(" ");

self.addEventListener("install", (event) => {
  // A page need not wait for this worker: the browser asks the server at once, and takes what the worker
  // has only if that fails.
  if (event.addRoutes) {
    event.addRoutes({ condition: { requestMode: "navigate" }, source: "race-network-and-fetch-handler" });
  }
  event.waitUntil(caches.open(STORE).then((store) => store.addAll(KEPT)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches.keys()
      .then((names) => Promise.all(names.filter((name) => name.startsWith("rota-") && name !== STORE).map((name) => caches.delete(name))))
      .then(() => self.clients.claim())
  );
});

self.addEventListener("fetch", (event) => {
  const request = event.request;
  if (request.mode === "navigate" && request.method === "GET") {
    event.respondWith(fetch(request).catch(() => caches.match(KEPT[0])));
  } else if (request.destination === "style" || request.destination === "image") {
    event.respondWith(fetch(request).catch(() => caches.match(request)));
  }
});
