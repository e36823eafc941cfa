// Optional behaviour of the pages: refresh without disturbing the user, jump to the search box with "/",
// and tick all boxes at once. Without it the pages still work.
(function () {
  "use strict";

  var TICK_EVERY = 5000;
  var KEY = "rota-paused";
  var root = document.documentElement;
  root.classList.add("js");

  function remembered() {
    try { return window.sessionStorage.getItem(KEY) === "yes"; } catch (error) { return false; }
  }

  var isPaused = remembered();
  var isStale = false;

  function show() {
    var box = document.querySelector(".live");
    if (!box) return;
    var state = isPaused ? "paused" : isStale ? "stale" : "live";
    box.dataset.state = state;
    var words = { live: "Live", paused: "Paused", stale: "Out of date: no response" };
    var text = box.querySelector("[data-text]");
    if (text.textContent !== words[state]) text.textContent = words[state];
    var button = box.querySelector("button");
    button.textContent = isPaused ? "Resume" : "Pause";
    button.setAttribute("aria-label", (isPaused ? "Resume" : "Pause") + " live updates");
  }

  function setPaused(paused) {
    isPaused = paused;
    try { window.sessionStorage.setItem(KEY, paused ? "yes" : "no"); } catch (error) { /* private */ }
    show();
    if (!paused) tick();
  }

  function tick() {
    if (!isPaused && !document.hidden && window.htmx && document.getElementById("fresh")) {
      window.htmx.trigger(document.body, "rota:tick");
    }
  }

  // ---- a refresh keeps what the user is working on ----

  function isBusy(part) {
    var chosen = window.getSelection();
    if (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode)) return true;
    var active = document.activeElement;
    return part.contains(active) && active.matches("select, textarea, input:not([type=checkbox])");
  }

  function nameOf(element, among) {
    if (element.id) return "#" + element.id;
    var marks = ["href", "name", "value", "data-key"].map(function (name) {
      return element.getAttribute(name) || "";
    });
    var name = element.tagName + "|" + marks.join("|");
    var twins = among.filter(function (other) {
      return !other.id && other.tagName === element.tagName &&
        ["href", "name", "value", "data-key"].every(function (mark, index) {
          return (other.getAttribute(mark) || "") === marks[index];
        });
    });
    return name + "|" + twins.indexOf(element);
  }

  var FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
  var kept = null;

  function remember(part) {
    var focusable = Array.from(part.querySelectorAll(FOCUSABLE));
    var active = document.activeElement;
    kept = {
      checked: Array.from(part.querySelectorAll("input[type=checkbox]:checked")).map(function (box) {
        return box.name + "|" + box.value;
      }),
      open: Array.from(part.querySelectorAll("details[open][data-key]")).map(function (each) {
        return each.dataset.key;
      }),
      scrolls: Array.from(part.querySelectorAll(".scroll, pre")).map(function (each) {
        return [each.scrollLeft, each.scrollTop];
      }),
      focus: part.contains(active) ? nameOf(active, focusable) : null
    };
  }

  function restore(part) {
    if (!kept) return;
    part.querySelectorAll("input[type=checkbox]").forEach(function (box) {
      box.checked = kept.checked.indexOf(box.name + "|" + box.value) >= 0;
    });
    part.querySelectorAll("details[data-key]").forEach(function (each) {
      each.open = kept.open.indexOf(each.dataset.key) >= 0;
    });
    part.querySelectorAll(".scroll, pre").forEach(function (each, index) {
      var place = kept.scrolls[index];
      if (place) { each.scrollLeft = place[0]; each.scrollTop = place[1]; }
    });
    if (kept.focus) {
      var focusable = Array.from(part.querySelectorAll(FOCUSABLE));
      var again = focusable.find(function (each) { return nameOf(each, focusable) === kept.focus; });
      if (again) again.focus({ preventScroll: true });
    }
    kept = null;
    countChosen();
  }

  document.addEventListener("htmx:beforeSwap", function (event) {
    var part = event.detail.target;
    if (part.id !== "fresh") return;
    if (isPaused || isBusy(part)) { event.detail.shouldSwap = false; return; }
    if (event.detail.shouldSwap) remember(part);
  });

  document.addEventListener("htmx:afterSwap", function () {
    var part = document.getElementById("fresh");
    if (part) restore(part);
  });

  document.addEventListener("htmx:afterRequest", function (event) {
    isStale = !event.detail.successful;
    if (event.detail.xhr && event.detail.xhr.status === 401) window.location.reload();
    show();
  });

  // ---- boxes ----

  function countChosen() {
    document.querySelectorAll("[data-chosen]").forEach(function (place) {
      var form = place.closest("form");
      var count = form.querySelectorAll("input[name=id]:checked").length;
      place.textContent = count ? count + " selected" : "None selected";
      form.querySelectorAll("button[data-needs-choice]").forEach(function (button) {
        button.disabled = count === 0;
      });
    });
  }

  document.addEventListener("change", function (event) {
    var box = event.target;
    if (box.matches("[data-all]")) {
      box.closest("form").querySelectorAll("input[name=id]").forEach(function (each) {
        each.checked = box.checked;
      });
    }
    countChosen();
  });

  document.addEventListener("click", function (event) {
    var button = event.target.closest(".live button");
    if (button) setPaused(!isPaused);
  });

  // ---- keys ----

  document.addEventListener("keydown", function (event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, textarea, select")) return;
    var search = document.querySelector("input[type=search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  });

  document.addEventListener("visibilitychange", function () { if (!document.hidden) tick(); });
  // A notice shows once: not after a reload, nor in a shared link.
  function forgetNotice() {
    var address = new URL(window.location.href);
    if (!address.searchParams.has("done")) return;
    address.searchParams.delete("done");
    address.searchParams.delete("count");
    window.history.replaceState(null, "", address);
  }

  document.addEventListener("DOMContentLoaded", function () {
    forgetNotice();
    var here = document.querySelector(".menu [aria-current]");
    if (here) here.closest("nav").scrollLeft = Math.max(0, here.offsetLeft - 120);
    show();
    countChosen();
    window.setInterval(tick, TICK_EVERY);
  });
})();
