/* A record as a document, when the server shows it: the colours that the viewer was set to, and its keys. */
"use strict";

try { document.documentElement.dataset.theme = localStorage.getItem("theme") || ""; } catch { /* a browser that keeps nothing */ }
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const place = { "[": ".before", "]": ".after", ArrowLeft: ".earlier", ArrowRight: ".later", t: "header" }[event.key];
  document.querySelector(place && `${place} a`)?.click();
});
