/* The strip of years below the timeline: every decision as part of a bar, and the window that the timeline shows. */
"use strict";

const Strip = (() => {
  const { s, $ } = Dom;
  const BAR = 7; // px from one bar to the next
  const FOOT = 18; // px for the years
  let x = null;
  let drag = null;

  function draw() {
    const box = $("strip");
    const { clientWidth: wide, clientHeight: tall } = box;
    if (!wide || !Data.decisions.length) return Dom.put(box);
    x = d3.scaleUtc(Data.span.map((time) => new Date(time)), [2, wide - 2]);
    const bins = new Map();
    for (const row of Data.decisions) {
      const bin = Math.floor(x(row.t) / BAR);
      if (!bins.has(bin)) bins.set(bin, []);
      bins.get(bin).push(App.shown(row) && Data.there(row) ? Data.kind(row) : "faded");
    }
    const most = Math.max(...[...bins.values()].map((each) => each.length));
    const base = tall - FOOT;
    const unit = (base - 6) / most;
    const picture = s("svg", { width: wide, height: tall, "aria-hidden": "true" });
    for (const [bin, each] of bins) {
      const lit = each.filter((kind) => kind !== "faded");
      const bars = Timeline.stack(lit, { at: bin * BAR, base, unit, wide: BAR - 1.5 });
      const rest = (each.length - lit.length) * unit;
      if (rest) bars.push(s("rect", { class: "bar faded", x: bin * BAR, y: base - lit.length * unit - rest, width: BAR - 1.5, height: rest, rx: 1 }));
      picture.append(...bars);
    }
    for (const time of x.ticks(Math.max(2, wide / 120))) {
      const at = x(time);
      if (at > 20 && at < wide - 24) picture.append(s("text", { class: "tick", x: at, y: tall - 5, "text-anchor": "middle" }, Timeline.label(time)));
    }
    picture.append(s("line", { class: "rule", x1: 0, x2: wide, y1: base + 0.5, y2: base + 0.5 }));
    const [a, b] = Timeline.windowOf().map(x);
    picture.append(
      s("rect", { class: "outside", x: 0, y: 0, width: Math.max(0, a), height: base }), s("rect", { class: "outside", x: b, y: 0, width: Math.max(0, wide - b), height: base }),
      s("rect", { class: "window", "data-part": "whole", x: a, y: 1, width: Math.max(8, b - a), height: base - 1, rx: 4 }),
      ...[a, b].map((at, i) => s("g", { class: "grip", "data-part": i ? "to" : "from", transform: `translate(${at},${base / 2})` }, s("rect", { class: "reach", x: -11, y: -base / 2, width: 22, height: base }), s("rect", { class: "bead", x: -3, y: -10, width: 6, height: 20, rx: 3 }))));
    Dom.put(box, picture);
  }

  const timeAt = (event) => Math.max(Data.span[0], Math.min(Data.span[1], +x.invert(event.clientX - $("strip").getBoundingClientRect().left)));
  function down(event) {
    const part = event.target.closest("[data-part]")?.dataset.part;
    const [from, to] = Timeline.windowOf();
    const time = timeAt(event);
    const all = from <= Data.span[0] && to >= Data.span[1];
    drag = !part || (part === "whole" && all) ? { part: "new", start: time } : { part, start: time, from, to };
    $("strip").setPointerCapture(event.pointerId);
  }
  function move(event) {
    if (!drag) return;
    const time = timeAt(event);
    const least = (Data.span[1] - Data.span[0]) / 300;
    if (drag.part === "whole") {
      const wide = drag.to - drag.from;
      const start = Math.max(Data.span[0], Math.min(drag.from + time - drag.start, Data.span[1] - wide));
      Timeline.show(start, start + wide);
    } else if (drag.part === "new") {
      if (Math.abs(time - drag.start) > least) Timeline.show(Math.min(time, drag.start), Math.max(time, drag.start));
    } else if (drag.part === "from") Timeline.show(Math.min(time, drag.to - least), drag.to);
    else Timeline.show(drag.from, Math.max(time, drag.from + least));
  }

  /** The last so many days of the memory; 0 for all. */
  function last(days) {
    const newest = Data.decisions.at(-1)?.t ?? Date.now();
    const wide = days * State.DAY;
    if (!days || newest - wide <= Data.span[0]) return Timeline.show(...Data.span);
    return Timeline.show(newest - wide, newest + wide * 0.04);
  }

  function start() {
    const box = $("strip");
    box.addEventListener("pointerdown", down);
    box.addEventListener("pointermove", move);
    box.addEventListener("pointerup", () => (drag = null));
    for (const button of $("spans").querySelectorAll("button")) button.addEventListener("click", () => last(+button.dataset.days));
  }

  return { draw, start };
})();
