"use strict";
// Before the first paint: apply the theme that was chosen earlier.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch (error) { /* Storage may be disabled; then the system theme applies. */ }
document.documentElement.classList.add("scripted");
