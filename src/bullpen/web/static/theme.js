"use strict";
// Before anything is painted: the colours that somebody chose here before.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch (error) { /* Storage may be forbidden; then the system's choice holds. */ }
document.documentElement.classList.add("scripted");
