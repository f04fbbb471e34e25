// Before anything is painted: the colours that were chosen here last. "system" is the absence of a choice.
"use strict";
(() => {
  const root = document.documentElement, kept = "fleetagent-theme", names = ["system", "light", "dark"];
  const read = () => {
    try { return localStorage.getItem(kept) || "system"; } catch { return "system"; }
  };
  const show = (theme) => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
  };
  show(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const say = () => { button.textContent = `Theme: ${read()}`; };
    say();
    button.hidden = false;
    button.addEventListener("click", () => {
      const next = names[(names.indexOf(read()) + 1) % names.length];
      try { localStorage.setItem(kept, next); } catch { /* no storage: the choice ends with the page */ }
      show(next);
      say();
      document.dispatchEvent(new Event("theme"));
    });
  });
})();
