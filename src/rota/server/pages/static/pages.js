// Optional behaviour of the pages: refresh without disturbing the user, work by keys, and tick all boxes
// at once. Without it the pages still work.
(function () {
  "use strict";

  var POLL_EVERY = 5000;
  var AGAIN_AFTER = 30000;
  var FROZEN = "rota-frozen";
  var HTMX = document.currentScript.dataset.htmx;
  var root = document.documentElement;
  root.classList.add("js");

  function remembered() {
    try { return window.sessionStorage.getItem(FROZEN) === "yes"; } catch (error) { return false; }
  }

  var isFrozen = remembered();
  var isStale = false;

  function show() {
    var box = document.querySelector(".live");
    if (!box) return;
    var state = isFrozen ? "frozen" : isStale ? "stale" : "live";
    box.dataset.state = state;
    var words = { live: "Live", frozen: "Frozen", stale: "Out of date: no response" };
    var text = box.querySelector("[data-text]");
    if (text.textContent !== words[state]) text.textContent = words[state];
    var button = box.querySelector("button");
    button.textContent = isFrozen ? "Unfreeze" : "Freeze";
    button.setAttribute("aria-label", (isFrozen ? "Unfreeze" : "Freeze") + " this page");
  }

  function setFrozen(frozen) {
    isFrozen = frozen;
    try { window.sessionStorage.setItem(FROZEN, frozen ? "yes" : "no"); } catch (error) { /* private */ }
    show();
    listen();
    if (!frozen) tick();
  }

  function tick() {
    if (!isFrozen && !document.hidden && window.htmx && document.getElementById("fresh")) {
      window.htmx.trigger(document.body, "rota:tick");
    }
  }

  // ---- the server says when something has changed; without it, ask every few seconds ----

  var source = null;
  var refusedAt = 0;

  function listen() {
    var isWanted = !isFrozen && !document.hidden && window.EventSource && document.getElementById("fresh");
    if (!isWanted) {
      // A browser has few connections to one server: a page that is not seen takes none.
      if (source) source.close();
      source = null;
      return;
    }
    if (source || Date.now() - refusedAt < AGAIN_AFTER) return;
    var opened = 0;
    source = new EventSource(document.body.dataset.home + "/live");
    source.addEventListener("change", tick);
    source.addEventListener("beat", tick);
    source.onopen = function () { if (opened++) tick(); };
    source.onerror = function () {
      if (source && source.readyState === EventSource.CLOSED) { source = null; refusedAt = Date.now(); }
    };
  }

  function poll() {
    listen();
    if (!source || source.readyState !== EventSource.OPEN) tick();
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

  var KEPT_PARTS = ["fresh", "states"];

  document.addEventListener("htmx:beforeSwap", function (event) {
    var part = event.detail.target;
    if (KEPT_PARTS.indexOf(part.id) < 0) return;
    if (isFrozen || isBusy(part)) { event.detail.shouldSwap = false; return; }
    if (event.detail.shouldSwap) remember(part);
  });

  document.addEventListener("htmx:afterSwap", function (event) {
    if (KEPT_PARTS.indexOf(event.detail.target.id) >= 0) restore(event.detail.target);
  });

  document.addEventListener("htmx:afterRequest", function (event) {
    if (event.detail.target.id !== "fresh") return;
    isStale = !event.detail.successful;
    if (event.detail.xhr && event.detail.xhr.status === 401) window.location.reload();
    show();
  });

  // ---- boxes ----

  // The bar under a list says to how many of the selected rows each action applies, and why not to the others.
  function countChosen() {
    document.querySelectorAll(".bulk").forEach(function (bar) {
      var boxes = Array.from(bar.closest("form").querySelectorAll("input[name=id]:checked"));
      var isAll = Boolean(bar.querySelector("[name=everything]:checked"));
      var words = isAll ? "All selected" : boxes.length ? boxes.length + " selected" : "None selected";
      var place = bar.querySelector("[data-chosen]");
      if (place.textContent !== words) place.textContent = words;
      bar.classList.toggle("chosen", isAll || boxes.length > 0);
      bar.querySelectorAll("button[data-needs-choice]").forEach(function (button) {
        var fitting = boxes.filter(function (box) { return allows(box, button.value); });
        button.disabled = !isAll && fitting.length === 0;
        button.querySelector("[data-count]").textContent = isAll ? " all" : boxes.length ? " " + fitting.length : "";
      });
      explainChoice(bar, isAll ? [] : boxes);
    });
  }

  function allows(box, action) {
    return (box.dataset.allows || "").split(" ").indexOf(action) >= 0;
  }

  function explainChoice(bar, boxes) {
    var place = bar.querySelector("[data-others]");
    var reasons = Array.from(bar.querySelectorAll("button[data-needs-choice]")).map(function (button) {
      var states = {};
      boxes.forEach(function (box) {
        if (!allows(box, button.value)) states[box.dataset.state] = (states[box.dataset.state] || 0) + 1;
      });
      var named = Object.keys(states).map(function (state) { return states[state] + " " + state; });
      return named.length && !button.disabled ? button.dataset.verb + " leaves out " + named.join(", ") : "";
    }).filter(Boolean);
    place.textContent = reasons.join("; ");
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

  // With Shift, a click selects every row from the last one that was clicked.
  var lastClicked = null;

  function selectRange(box, isRange) {
    var boxes = Array.from(box.closest("form").querySelectorAll("input[name=id]"));
    var here = boxes.indexOf(box);
    var there = boxes.findIndex(function (each) { return each.value === lastClicked; });
    if (isRange && there >= 0) {
      boxes.slice(Math.min(here, there), Math.max(here, there) + 1).forEach(function (each) {
        each.checked = box.checked;
      });
    }
    lastClicked = box.value;
  }

  document.addEventListener("click", function (event) {
    if (event.target.matches("input[name=id]")) selectRange(event.target, event.shiftKey);
    if (event.target.closest(".live button")) setFrozen(!isFrozen);
    if (event.target.closest("[data-keys]")) document.getElementById("keys").showModal();
  });

  // ---- keys ----

  var hasPressedG = false;

  function focusSearch() {
    var search = document.querySelector("main input[type=search]");
    if (!search) return false;
    search.focus();
    search.select();
    return true;
  }

  function listRows() {
    return Array.from(document.querySelectorAll("main tbody tr")).filter(function (row) {
      return row.querySelector("a.title");
    });
  }

  function moveRow(step) {
    var rows = listRows();
    if (!rows.length) return false;
    var here = rows.indexOf(document.activeElement.closest("tr"));
    var next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(here + step, 0), rows.length - 1);
    rows[next].querySelector("a.title").focus();
    return true;
  }

  function selectRow() {
    var row = document.activeElement.closest("tr");
    var box = row && row.querySelector("input[name=id]");
    if (box) box.click();
    return Boolean(box);
  }

  function goTo(letter) {
    var links = Array.from(document.querySelectorAll(".menu a"));
    var link = links.find(function (each) { return each.textContent.trim().toLowerCase().charAt(0) === letter; });
    if (link) link.click();
    return Boolean(link);
  }

  var KEYS = {
    "/": focusSearch,
    "?": function () { document.getElementById("keys").showModal(); return true; },
    j: function () { return moveRow(1); },
    k: function () { return moveRow(-1); },
    x: selectRow,
    f: function () { setFrozen(!isFrozen); return true; },
    g: function () { hasPressedG = true; return true; }
  };

  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    var isField = event.target.matches("textarea, select, input:not([type=checkbox])");
    if (isField) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.key === "Shift") return;
    var isSecond = hasPressedG;
    hasPressedG = false;
    var act = isSecond ? function () { return goTo(event.key); } : KEYS[event.key];
    if (act && act()) event.preventDefault();
  });

  document.addEventListener("visibilitychange", function () { listen(); tick(); });

  // ---- views: a name for the filters in the address, kept in this browser ----

  var VIEWS = "rota-views";

  function readViews() {
    try { return JSON.parse(window.localStorage.getItem(VIEWS)) || []; } catch (error) { return []; }
  }

  function writeViews(views) {
    try { window.localStorage.setItem(VIEWS, JSON.stringify(views)); } catch (error) { /* private */ }
    showViews();
  }

  function showViews() {
    var list = document.querySelector("[data-views]");
    if (!list) return;
    list.querySelectorAll("[data-own]").forEach(function (each) { each.remove(); });
    readViews().forEach(function (view) {
      var item = document.createElement("li"), link = document.createElement("a"), drop = document.createElement("button");
      item.dataset.own = view.name;
      link.textContent = view.name;
      link.href = window.location.pathname + "?" + view.query;
      if (window.location.search === "?" + view.query) link.setAttribute("aria-current", "true");
      drop.type = "button";
      drop.className = "link";
      drop.textContent = "×";
      drop.setAttribute("aria-label", "Forget the view " + view.name);
      item.append(link, drop);
      list.append(item);
    });
  }

  function saveView(name) {
    var query = window.location.search.slice(1);
    var others = readViews().filter(function (each) { return each.name !== name; });
    if (name && query) writeViews(others.concat([{ name: name, query: query }]));
  }

  document.addEventListener("submit", function (event) {
    if (!event.target.matches("[data-save-view]")) return;
    event.preventDefault();
    saveView(event.target.elements.name.value.trim());
    event.target.reset();
  });

  document.addEventListener("click", function (event) {
    var own = event.target.closest("[data-own] button");
    if (own) writeViews(readViews().filter(function (each) { return each.name !== own.parentElement.dataset.own; }));
  });

  // ---- once, when the page is there ----

  // A notice shows once: not after a reload, nor in a shared link.
  function forgetNotice() {
    var address = new URL(window.location.href);
    if (!address.searchParams.has("done")) return;
    address.searchParams.delete("done");
    address.searchParams.delete("count");
    address.searchParams.delete("undo");
    window.history.replaceState(null, "", address);
  }

  function offerOwnZone() {
    var list = document.getElementById("zones");
    var name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (list && name && name !== "UTC") list.append(new Option(name, name));
  }

  function install() {
    if (!("serviceWorker" in navigator)) return;
    navigator.serviceWorker.register(document.body.dataset.home + "/service-worker.js", {
      scope: document.body.dataset.home
    }).catch(function () { /* only the offline page needs it */ });
  }

  // Once the page is painted: its frame comes first, then the rest (see .rest in pages.css). Before the end of
  // loading, htmx would wait for a DOMContentLoaded that is over.
  function startLater() {
    if (document.readyState !== "complete") { window.addEventListener("load", startLater); return; }
    var script = document.createElement("script");
    script.src = HTMX;
    document.head.append(script);
    listen();
    window.setInterval(poll, POLL_EVERY);
    install();
  }

  document.addEventListener("DOMContentLoaded", function () {
    forgetNotice();
    var here = document.querySelector(".menu [aria-current]");
    if (here) here.closest("nav").scrollLeft = Math.max(0, here.offsetLeft - 120);
    show();
    countChosen();
    offerOwnZone();
    showViews();
    window.requestAnimationFrame(function () {
      window.requestAnimationFrame(function () { window.setTimeout(startLater); });
    });
  });
})();
