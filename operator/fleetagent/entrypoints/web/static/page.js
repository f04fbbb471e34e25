// What the page does by itself: spans of time, news from the operator, forms that answer in place.
"use strict";
(() => {
  const body = document.body;

  // -- time: as page/words.py writes it -------------------------------------------------------------------------------
  const skew = body.dataset.now ? Date.parse(body.dataset.now) - Date.now() : 0;
  const two = (many, unit, few, small) => (few ? `${many} ${unit} ${few} ${small}` : `${many} ${unit}`);
  const span = (seconds) => {
    seconds = Math.round(seconds);
    if (seconds < 100) return `${seconds} s`;
    const minutes = Math.round(seconds / 60);
    if (minutes < 100) return `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return two(hours, "h", minutes % 60, "min");
    return two(Math.floor(hours / 24), "d", hours % 24, "h");
  };
  const tell = () => {
    const now = Date.now() + (Math.abs(skew) > 5000 ? skew : 0);
    for (const each of document.querySelectorAll("time[data-ago]")) {
      const seconds = (now - Date.parse(each.dateTime)) / 1000;
      const said = Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
      if (each.textContent !== said) each.textContent = said;
    }
  };
  setInterval(tell, 5000);

  // -- news: one stream while the page is looked at, none while it lies in the background --------------------------------
  const sign = document.getElementById("live"), least = "slow" in body.dataset ? 10000 : 5000;
  let source = null, again = null, last = 0, due = null;
  const say = (words, mood) => {
    sign.hidden = false;
    sign.className = `live ${mood}`;
    if (sign.textContent !== words) sign.textContent = words; // or screen readers would say it each time
  };
  let moved = 0;
  addEventListener("pointermove", () => { moved = Date.now(); }, { passive: true });
  const busy = (part) => {
    if (part.querySelector(":popover-open, button:active")) return true;
    // Who aims at a button must not find another one under the pointer.
    if (part.querySelector("button:hover") && Date.now() - moved < 4000) return true;
    for (const field of part.querySelectorAll("input:not([type=hidden]), textarea")) {
      if (field === document.activeElement && field.type !== "checkbox") return true;
      if (field.value !== field.defaultValue || field.checked !== field.defaultChecked) return true;
    }
    const chosen = document.activeElement;
    return part.contains(chosen) && chosen.tagName === "SELECT";
  };
  const hold = () => {
    say("held while you type", "held");
    clearTimeout(due);
    due = setTimeout(refresh, 5000);
  };
  const refresh = () => {
    due = null;
    last = Date.now();
    const parts = [...document.querySelectorAll('[hx-trigger="live"]')];
    const held = parts.filter(busy);
    for (const part of parts) if (!held.includes(part)) htmx.trigger(part, "live");
    document.dispatchEvent(new Event("news"));
    if (held.length) hold(); else say("live", "fresh");
  };
  const soon = () => {
    // All who watch are told at once: they need not all come at once.
    if (due === null) due = setTimeout(refresh, Math.max(0, last + least - Date.now()) + Math.random() * (least / 5));
  };
  const hush = () => {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  };
  const listen = (missed) => {
    hush();
    source = new EventSource(body.dataset.events);
    source.onopen = () => {
      say("live", "");
      if (missed) soon();
      missed = true;
    };
    source.addEventListener("changed", soon);
    source.addEventListener("over", (event) => { hush(); say(`not live: ${event.data}`, "lost"); });
    source.onerror = () => {
      say("not live: trying again", "lost");
      if (source && source.readyState === EventSource.CLOSED) { hush(); again = setTimeout(listen, 15000, true); }
    };
  };
  if (body.dataset.events) {
    document.addEventListener("visibilitychange", () => { if (document.hidden) hush(); else listen(true); });
    addEventListener("pagehide", hush);
    addEventListener("pageshow", (event) => { if (event.persisted) listen(true); });
    if (!document.hidden) listen(false);
  }

  // What is replaced keeps what was unfolded, and how far it was scrolled.
  const before = new Map();
  const named = (fold) => fold.id || fold.querySelector("summary").textContent;
  body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { target } = detail;
    if (detail.elt === target && busy(target)) { // somebody has begun to type since it was asked for
      detail.shouldSwap = false;
      hold();
      return;
    }
    before.set(target.id, {
      unfolded: [...target.querySelectorAll("details[open]")].map(named),
      scrolled: [...target.querySelectorAll(".scroll")].map((box) => box.scrollLeft),
    });
  });
  body.addEventListener("htmx:afterSettle", ({ detail }) => {
    const part = document.getElementById(detail.target.id), was = before.get(detail.target.id);
    before.delete(detail.target.id);
    if (!part || !was) return;
    for (const fold of part.querySelectorAll("details")) if (was.unfolded.includes(named(fold))) fold.open = true;
    part.querySelectorAll(".scroll").forEach((box, index) => { box.scrollLeft = was.scrolled[index] ?? 0; });
    tell();
  });

  // -- forms -------------------------------------------------------------------------------------------------------------
  body.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (!(detail.elt instanceof HTMLFormElement)) return;
    // It was disabled meanwhile, and lost the focus by that.
    if (document.activeElement === body) detail.elt.querySelector("button")?.focus({ preventScroll: true });
    if (!detail.successful) return;
    moved = 0;
    detail.elt.reset();
    const pop = detail.elt.closest("[popover]");
    if (pop) pop.hidePopover();
    clearTimeout(due);
    due = setTimeout(refresh, 1500);
  });
  body.addEventListener("htmx:sendError", ({ detail }) => {
    if (detail.elt instanceof HTMLFormElement) document.getElementById("said").textContent = "The operator cannot be reached: nothing was sent.";
  });
  body.addEventListener("change", (event) => {
    if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
  });
})();
