// The dependency graph: zoom, pan and fit, and the states of its nodes as they change. Without this
// script the graph is a picture that scrolls.
(function () {
  "use strict";

  var SMALLEST = 0.02;
  var LARGEST = 3;
  var STEP = 1.25;
  var frame, svg, size, view, scale;
  var pointers = new Map();
  var moved = 0;

  function draw() {
    svg.setAttribute("viewBox", [view.x, view.y, frame.clientWidth / scale, frame.clientHeight / scale].join(" "));
  }

  function clamp(value) { return Math.min(LARGEST, Math.max(SMALLEST, value)); }

  // Zoom so that the point of the frame stays where it is.
  function zoom(factor, x, y) {
    var next = clamp(scale * factor);
    view.x += x / scale - x / next;
    view.y += y / scale - y / next;
    scale = next;
    draw();
  }

  function zoomMiddle(factor) { zoom(factor, frame.clientWidth / 2, frame.clientHeight / 2); }

  function showAt(wanted, x, y) {
    scale = clamp(wanted);
    view.x = x - frame.clientWidth / scale / 2;
    view.y = y - frame.clientHeight / scale / 2;
    draw();
  }

  function fitting() {
    return Math.min(1, frame.clientWidth / size.width, frame.clientHeight / size.height);
  }

  function fit() { showAt(fitting(), size.width / 2, size.height / 2); }

  function middleOf(node) {
    var at = node.transform.baseVal.getItem(0).matrix;
    var box = node.querySelector("rect");
    return { x: at.e + box.width.baseVal.value / 2, y: at.f + box.height.baseVal.value / 2 };
  }

  function showNode(node, wanted) {
    var middle = middleOf(node);
    showAt(wanted, middle.x, middle.y);
  }

  function here() { return svg.querySelector(".here"); }

  function isSeen(node) {
    var middle = middleOf(node);
    var x = (middle.x - view.x) * scale, y = (middle.y - view.y) * scale;
    return x > 20 && y > 10 && x < frame.clientWidth - 20 && y < frame.clientHeight - 10;
  }

  var ACTS = {
    "in": function () { zoomMiddle(STEP); },
    out: function () { zoomMiddle(1 / STEP); },
    fit: fit,
    full: function () { zoomMiddle(1 / scale); },
    here: function () { showNode(here(), Math.max(scale, 0.8)); }
  };
  var KEYS = { "+": ACTS["in"], "=": ACTS["in"], "-": ACTS.out, "0": fit };
  var ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    var arrow = ARROWS[event.key];
    if (arrow) {
      view.x += arrow[0] * 60 / scale;
      view.y += arrow[1] * 60 / scale;
      draw();
    } else if (KEYS[event.key]) {
      KEYS[event.key]();
    } else {
      return;
    }
    event.preventDefault();
  }

  function onWheel(event) {
    if (!event.ctrlKey && !event.metaKey && !frame.classList.contains("large")) return;
    event.preventDefault();
    var box = frame.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }

  function spread() {
    var two = Array.from(pointers.values());
    return {
      length: Math.hypot(two[0].x - two[1].x, two[0].y - two[1].y),
      x: (two[0].x + two[1].x) / 2,
      y: (two[0].y + two[1].y) / 2
    };
  }

  function onDown(event) {
    if (event.button !== 0) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved = 0;
  }

  function onMove(event) {
    var last = pointers.get(event.pointerId);
    if (!last) return;
    var before = pointers.size === 2 ? spread() : null;
    var dx = event.clientX - last.x, dy = event.clientY - last.y;
    last.x = event.clientX;
    last.y = event.clientY;
    moved += Math.abs(dx) + Math.abs(dy);
    if (before) {
      var after = spread(), box = frame.getBoundingClientRect();
      if (before.length) zoom(after.length / before.length, after.x - box.left, after.y - box.top);
      return;
    }
    if (moved < 4) return;
    if (!frame.hasPointerCapture(event.pointerId)) frame.setPointerCapture(event.pointerId);
    view.x -= dx / scale;
    view.y -= dy / scale;
    draw();
  }

  function onUp(event) { pointers.delete(event.pointerId); }

  // ---- states ----

  function refresh() {
    var states = document.getElementById("graph-states");
    if (!states) return;
    var isSame = states.dataset.mark === frame.dataset.mark;
    document.getElementById("graph-changed").hidden = isSame;
    if (!isSame) return;
    var signs = states.dataset.signs.split(",").map(function (each) { return each.split("/"); });
    var indexes = states.value.split(",");
    svg.querySelectorAll(".node").forEach(function (node, at) {
      var sign = signs[Number(indexes[at])], word = node.querySelector(".sub");
      if (word.textContent === sign[0]) return;
      var label = node.getAttribute("aria-label");
      node.setAttribute("aria-label", label.slice(0, label.lastIndexOf(",") + 2) + sign[0]);
      word.textContent = sign[0];
      node.querySelector("use").setAttribute("href", "#m-" + sign[1]);
      node.setAttribute("class", "node tone-" + sign[2] + (node.matches(".here") ? " here" : ""));
    });
  }

  function start() {
    frame = document.querySelector(".graph-frame");
    if (!frame) return;
    svg = frame.querySelector("svg");
    size = { width: svg.width.baseVal.value, height: svg.height.baseVal.value };
    view = { x: 0, y: 0 };
    frame.classList.add("movable");
    if (!frame.classList.contains("large")) frame.classList.toggle("low", size.height < 240);
    svg.setAttribute("width", "100%");
    svg.setAttribute("height", "100%");
    if (fitting() > 0.6 || !here()) fit(); else showNode(here(), 0.8);
    frame.addEventListener("keydown", onKey);
    frame.addEventListener("wheel", onWheel, { passive: false });
    frame.addEventListener("pointerdown", onDown);
    frame.addEventListener("pointermove", onMove);
    frame.addEventListener("pointerup", onUp);
    frame.addEventListener("pointercancel", onUp);
    frame.addEventListener("dragstart", function (event) { event.preventDefault(); });
    frame.addEventListener("click", function (event) { if (moved > 4) event.preventDefault(); }, true);
    frame.addEventListener("focusin", function (event) {
      frame.scrollLeft = frame.scrollTop = 0;
      if (event.target.matches(".node") && !isSeen(event.target)) showNode(event.target, scale);
    });
    document.querySelectorAll("[data-graph]").forEach(function (button) {
      button.addEventListener("click", ACTS[button.dataset.graph]);
    });
    window.addEventListener("resize", draw);
    document.addEventListener("htmx:afterSwap", refresh);
  }

  document.addEventListener("DOMContentLoaded", start);
})();

// Copy buttons: the text of every element that the button names, in their order.
(function () {
  "use strict";

  function copyOld(text) {
    var area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.appendChild(area);
    area.select();
    var isDone = document.execCommand("copy");
    area.remove();
    return isDone ? Promise.resolve() : Promise.reject(new Error("refused"));
  }

  function say(button, word) {
    button.textContent = word;
    window.setTimeout(function () { button.textContent = "Copy"; }, 2000);
  }

  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-copy]");
    if (!button) return;
    var parts = Array.from(document.querySelectorAll(button.dataset.copy));
    var text = parts.map(function (each) { return each.textContent; }).join("\n");
    var done = navigator.clipboard ? navigator.clipboard.writeText(text) : copyOld(text);
    done.then(function () { say(button, "Copied"); }, function () { say(button, "Not copied"); });
  });
})();
