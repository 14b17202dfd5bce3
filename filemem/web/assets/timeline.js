/* Decisions over time as one SVG. Places are found when the window, the lanes or the records change; only lanes in sight
   are drawn; search, filters and selection change classes alone. */
"use strict";

const Timeline = (() => {
  const { s, h, $ } = Dom;
  const AXIS = 34;
  const PAD = 10;
  const BEYOND = 300; // px above and below the window in which lanes are drawn too
  let lanes = []; // {name, rows, y, height, packed}
  let places = new Map(); // id -> {row, x, y, lane, room}
  let drawn = new Map(); // lane index -> its <g>
  let nodes = new Map(); // id -> the <g> of its mark
  let x, width, gutter, head, step, height, svg, laneLayer, linkLayer, edgeLayer, topLayer;

  const board = () => $("board");
  const windowOf = () => {
    const [a, b] = Data.span;
    return [State.now.from || a, State.now.to || b];
  };

  /* ---- places ---- */
  function layout() {
    const narrow = board().clientWidth < 620;
    gutter = narrow ? 10 : 188;
    head = narrow ? 26 : 0;
    step = matchMedia("(max-width: 760px)").matches ? 44 : 23;
    width = Math.max(240, board().clientWidth);
    const edge = narrow ? 140 : 170; // room for the titles of the newest
    x = scale(gutter + 8, width - edge);
    const by = State.now.by || Lanes.usual(Data.decisions);
    lanes = Lanes.group(Data.decisions, by);
    if (State.now.lane) lanes = lanes.filter((lane) => lane.name === State.now.lane);
    if (Data.marks?.size) lanes = lanes.filter((lane) => lane.rows.some((row) => Data.marks.has(row.id)));
    places = new Map();
    let y = 0;
    const most = State.now.lane || Data.decisions.length <= Lanes.NAMED ? Lanes.NAMED : Lanes.MOST;
    lanes.forEach((lane, index) => {
      const packed = Lanes.pack(lane.rows, (time) => x(time), gutter, width - 8, most);
      Object.assign(lane, { packed, y, height: Math.max(head + packed.lines * step + PAD * 2, narrow ? 60 : 52) });
      const lineY = (line) => y + PAD + head + line * step + step / 2;
      for (const mark of packed.marks) places.set(mark.row.id, { ...mark, y: lineY(mark.line), lane: index });
      for (const mark of packed.dots) places.set(mark.row.id, { ...mark, y: lineY(packed.lines - 1), lane: index });
      y += lane.height;
    });
    height = y;
    build();
  }

  /** The place of a time. Few decisions, and those of one day, stand one step apart: by time most would share a column. */
  function scale(left, right) {
    const [from, to] = windowOf();
    const times = Data.few ? [...new Set(Data.decisions.map((row) => row.t))].filter((time) => time > from && time < to) : [];
    const places = times.map((_, i) => left + ((right - left) * (i + 0.5)) / times.length);
    return d3.scaleUtc([from, ...times, to].map((time) => new Date(time)), [left, ...places, right]);
  }
  const ends = () => [x.range()[0], x.range().at(-1)];

  function build() {
    laneLayer = s("g");
    linkLayer = s("g", { "aria-hidden": "true" });
    edgeLayer = s("g", { "aria-hidden": "true" });
    topLayer = s("g", { "aria-hidden": "true" });
    const arrow = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      s("path", { d: "M1 1L7 4L1 7", class: "arrow" }));
    svg = s("svg", { id: "picture", width, height: height + 8, role: "group", "aria-label": "Decisions over time" },
      s("defs", {}, arrow), grid(), laneLayer, linkLayer, edgeLayer, topLayer);
    drawn = new Map();
    nodes = new Map();
    Dom.put($("lanes"), svg);
    axis();
    inSight();
    paint();
  }

  /** The times that the axis names: round ones; those of decisions where they stand in order. */
  function ticks() {
    const [left, right] = ends();
    const most = Math.max(2, Math.round((right - left) / 120));
    if (!Data.few) return x.ticks(most).map((time) => [time, label(time)]);
    const times = x.domain().slice(1, -1);
    const oneDay = times.length && times.at(-1) - times[0] < State.DAY;
    const text = (time, i) => d3.utcFormat(!oneDay ? "%-d %b %Y" : i ? "%H:%M" : "%-d %b, %H:%M")(time);
    const every = Math.ceil(times.length / most);
    const named = times.filter((_, i) => i % every === 0).map((time, i) => [time, text(time, i)]);
    return named.filter(([, name], i) => name !== named[i - 1]?.[1]);
  }
  function label(time) {
    const format = time.getUTCHours() || time.getUTCMinutes() ? "%H:%M" : time.getUTCDate() > 1 ? "%b %-d" : time.getUTCMonth() ? "%b %Y" : "%Y";
    return d3.utcFormat(format)(time);
  }
  /** Bold: what is coarser than the finest of the ticks; all, if they are all of one kind. */
  const rank = ([, name]) => [/:/, / \d{1,2}$/, / /, /./].findIndex((form) => form.test(name));
  const major = (tick, all) => rank(tick) > Math.min(...all.map(rank)) || rank(tick) === 3;
  function grid() {
    return s("g", { "aria-hidden": "true" }, ticks().map(([time]) => s("line", { class: "grid", x1: x(time), x2: x(time), y1: 0, y2: height })));
  }

  /* ---- the axis and the day in the past ---- */
  function axis() {
    const all = ticks();
    const picture = s("svg", { width, height: AXIS, "aria-hidden": "true" });
    const heading = { code: "governed code", area: "area", topic: "topic", who: "who decided" }[State.now.by || Lanes.usual(Data.decisions)];
    if (gutter > 20) picture.append(s("text", { x: 18, y: 22, class: "tick" }, Data.few ? `${heading}, in order` : heading));
    for (const tick of all) {
      const [time, name] = tick;
      picture.append(s("line", { class: "grid", x1: x(time), x2: x(time), y1: 24, y2: AXIS }), s("text", { x: Math.max(x(time), Dom.measure(name) / 2 + 4), y: 21, "text-anchor": "middle", class: major(tick, all) ? "tick major" : "tick" }, name));
    }
    Dom.put($("axis-picture"), picture);
    asOf();
  }

  /** The line of the day that is shown, and its handle. */
  function asOf() {
    const { asof } = State.now;
    const handle = $("asof");
    topLayer.querySelector(".asof")?.remove();
    handle.hidden = !asof;
    if (!asof) return;
    const at = Math.max(gutter, Math.min(width - 4, x(asof)));
    handle.style.left = `${Math.max(48, Math.min(at, width - 48))}px`; // half of it is 48 px at most
    handle.textContent = State.day(asof);
    handle.setAttribute("aria-valuenow", String(Math.round(asof / State.DAY)));
    handle.setAttribute("aria-valuetext", State.day(asof));
    handle.setAttribute("aria-valuemin", String(Math.round(Data.span[0] / State.DAY)));
    handle.setAttribute("aria-valuemax", String(Math.round(Data.span[1] / State.DAY)));
    topLayer.append(s("line", { class: "asof", x1: at, x2: at, y1: 0, y2: height }));
  }
  const moveAsOf = (time) => State.change({ asof: State.endOf(State.day(Math.max(Data.span[0], Math.min(Data.span[1], time)))) });

  /* ---- lanes in sight ---- */
  function inSight() {
    const before = [...drawn.keys()].join();
    const top = board().scrollTop - BEYOND;
    const bottom = board().scrollTop + board().clientHeight + BEYOND;
    lanes.forEach((lane, index) => {
      const near = lane.y < bottom && lane.y + lane.height > top;
      if (near && !drawn.has(index)) drawn.set(index, laneLayer.appendChild(drawLane(lane, index)));
      else if (!near && drawn.has(index)) {
        drawn.get(index).remove();
        drawn.delete(index);
        for (const row of lane.rows) nodes.delete(row.id);
      }
    });
    if (before !== [...drawn.keys()].join()) edges();
  }
  const edges = () => Dom.put(edgeLayer, Edges.picture((place) => drawn.has(place?.lane)));

  function drawLane(lane, index) {
    const band = s("rect", { class: index % 2 ? "band odd" : "band", x: 0, y: lane.y, width, height: lane.height });
    const rule = s("line", { class: "rule", x1: 0, x2: width, y1: lane.y + lane.height, y2: lane.y + lane.height });
    const wide = gutter > 20;
    const name = s("g", { class: "lane-name", role: "button", tabindex: 0, "data-lane": lane.name, "aria-pressed": String(Boolean(State.now.lane)) },
      s("rect", { class: "back", x: wide ? 8 : 2, y: lane.y + 6, width: wide ? gutter - 22 : width - 12, height: wide ? 40 : 24, rx: 6 }),
      s("text", { class: "name", x: wide ? 18 : 10, y: lane.y + 23 }, Dom.fit(lane.name, wide ? gutter - 48 : width / 2)),
      s("text", { class: "sub", x: wide ? 18 : width - 14, y: lane.y + (wide ? 39 : 23), "text-anchor": wide ? null : "end" }));
    const links = s("g", { class: "links", "aria-hidden": "true" });
    const marks = s("g");
    for (const mark of lane.packed.marks) {
      marks.append(drawMark(mark.row, places.get(mark.row.id)));
      for (const id of mark.row.supersedes) {
        const path = link(id, mark.row.id);
        if (path && places.get(id).lane === index) links.append(path);
      }
    }
    if (lane.packed.dense) marks.append(density(lane));
    else for (const mark of lane.packed.dots) marks.append(drawMark(mark.row, places.get(mark.row.id)));
    const group = s("g", { class: "lane" }, band, rule, links, name, marks);
    count(lane, group);
    for (const mark of [...lane.packed.marks, ...lane.packed.dots]) classes(mark.row);
    return group;
  }

  function drawMark(row, place) {
    const text = place.room > 40 ? Lanes.label(row.title, place.room - 12) : "";
    const long = text ? Dom.measure(text) + 12 : 0;
    const group = s("g", { transform: `translate(${place.x.toFixed(1)},${place.y})`, role: "button", tabindex: -1, "data-id": row.id },
      s("rect", { class: "pill", x: place.left ? -10 - long : -10, y: -11, width: long + 20, height: 22, rx: 11 }), Dom.glyph("holds"),
      text && s("text", { class: "title", x: place.left ? -11 : 11, y: 4, "text-anchor": place.left ? "end" : null }, text));
    nodes.set(row.id, group);
    return group;
  }

  /** A strip of bars for marks that are too many to tell apart: one bar for every eight pixels, by state. */
  function density(lane) {
    const bins = new Map();
    for (const { row, x: at } of lane.packed.dots) {
      const bin = Math.floor(at / 8);
      bins.set(bin, [...(bins.get(bin) || []), Data.kind(row)]);
    }
    const most = Math.max(...[...bins.values()].map((each) => each.length));
    const base = lane.y + lane.height - PAD;
    const bars = [...bins].flatMap(([bin, each]) => stack(each, { at: bin * 8, base, unit: (step - 3) / most, wide: 6.5 }));
    return s("g", { class: "density", "data-dense": lane.name, role: "img", "aria-label": `${lane.packed.dots.length} more decisions: zoom in, or open the lane` }, bars);
  }
  function stack(kinds, { at, base, unit, wide }) {
    let y = base;
    return ["holds", "part", "fork", "open", "dead", "gone", "other"].flatMap((kind) => {
      const n = kinds.filter((each) => each === kind).length;
      if (!n) return [];
      const tall = Math.max(1.5, n * unit);
      return [s("rect", { class: `bar k-${kind}`, x: at, y: (y -= tall), width: wide, height: tall, rx: 1 })];
    });
  }

  /** An arrow from what was replaced to what replaced it. One that would run behind another mark is left out until
   *  its chain is selected: then all its arrows are drawn, bold, over the marks. */
  function link(oldId, newId, bold = false) {
    const from = places.get(oldId);
    const to = places.get(newId);
    if (!from || !to) return null;
    const way = Math.sign(to.y - from.y);
    const [, start] = reach(from);
    const [end] = reach(to);
    const far = end - from.x;
    let d = "";
    if (!blocked(from, to)) {
      const bend = Math.min(9, far);
      if (!way && end - start > 13) d = `M${start + 2} ${from.y}H${end - 8}`;
      if (way && far > 16) d = `M${from.x} ${from.y + 7 * way}V${to.y - bend * way}Q${from.x} ${to.y} ${from.x + bend} ${to.y}H${end - 8}`;
    }
    if (!d && bold) {
      const mid = (from.x + to.x) / 2;
      if (!way) d = `M${from.x + 4} ${from.y + 8}Q${mid} ${from.y + 22} ${to.x - 3} ${to.y + 9}`;
      else if (to.x - from.x < 24) d = `M${from.x} ${from.y + 8 * way}L${to.x} ${to.y - 12 * way}`;
      else d = `M${from.x} ${from.y + 8 * way}C${from.x} ${(from.y + to.y) / 2} ${mid} ${to.y} ${to.x - 9} ${to.y}`;
    }
    if (!d) return null;
    return s("path", { class: Data.accepted(to.row) ? "link" : "link maybe", d, "marker-end": "url(#arrow)", "data-from": oldId, "data-to": newId });
  }

  /** From where to where a mark and its title reach. */
  const reach = (mark) => (mark.left ? [mark.x - mark.room, mark.x + 6] : [mark.x, mark.x + mark.room]);

  /** Whether another mark stands in the way of an arrow: down from the old one, then along the new one's line. */
  function blocked(from, to) {
    if (from.lane !== to.lane) return true;
    const [low, high] = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
    const [end] = reach(to);
    return lanes[to.lane].packed.marks.some((mark) => {
      const { y } = places.get(mark.row.id);
      const [start, stop] = reach(mark);
      if (mark.row.id === from.row.id || mark.row.id === to.row.id) return false;
      if (y === to.y) return stop > from.x - 8 && start < end;
      return y > low && y < high && start < from.x + 8 && stop > from.x - 8;
    });
  }

  /* ---- classes ---- */
  let chain = new Set();
  function classes(row) {
    const node = nodes.get(row.id);
    if (!node) return;
    const kind = Data.kind(row);
    const mark = Data.marks?.get(row.id);
    const parts = ["mark", `k-${kind}`];
    if (!App.shown(row)) parts.push("dim");
    else if (Search.matches) parts.push("hit");
    if (!Data.there(row)) parts.push("future");
    if (row.id === State.now.id) parts.push("sel");
    else if (chain.has(row.id)) parts.push("rel");
    if (Live.has(row.id)) parts.push("fresh");
    if (mark) parts.push("marked", `m-${mark}`);
    node.setAttribute("class", parts.join(" "));
    if (node.dataset.kind !== kind) {
      node.dataset.kind = kind;
      node.children[1].setAttribute("d", Dom.SHAPES[kind]);
    }
    const state = `${Data.KINDS[kind]}${mark ? `, ${mark} on the branch` : ""}`;
    node.setAttribute("aria-label", `${row.title}. ${state}, ${State.day(row.t)}${row.topic ? `, ${row.topic}` : ""}`);
    node.setAttribute("tabindex", row.id === State.now.id ? 0 : -1);
  }

  function count(lane, group) {
    const there = lane.rows.filter(Data.there);
    const hold = there.filter((row) => /holds|part|fork/.test(Data.kind(row))).length;
    const found = Search.matches ? lane.rows.filter(App.shown).length : 0;
    group.querySelector(".sub").textContent = Search.matches ? `${found} found` : `${hold} of ${there.length} hold`;
    group.classList.toggle("empty", Boolean(Search.matches) && !found);
  }

  function paint() {
    if (!svg) return;
    const { id } = State.now;
    chain = new Set(id ? Data.chain(id).map((row) => row.id) : []);
    for (const index of drawn.keys()) {
      const lane = lanes[index];
      count(lane, drawn.get(index));
      for (const row of lane.rows) classes(row);
      for (const path of drawn.get(index).querySelectorAll(".link")) {
        const ends = [path.dataset.from, path.dataset.to];
        const clear = ends.every((each) => App.shown(Data.get(each)) && Data.there(Data.get(each)));
        path.classList.toggle("dim", !clear);
      }
    }
    Dom.put(linkLayer, [...chain].flatMap((each) => Data.get(each).supersedes.map((old) => link(old, each, true))));
    for (const path of linkLayer.children) path.classList.add("on");
    edges();
    if (!svg.querySelector("[tabindex='0'][data-id]")) svg.querySelector("[data-id]")?.setAttribute("tabindex", 0);
    asOf();
  }

  /* ---- moving about ---- */
  /** Bring a record's mark into sight; with focus too where the keyboard led there. */
  function reveal(id, focus) {
    let place = places.get(id);
    const row = Data.get(id);
    if (!place && row?.type === "decision" && (State.now.from || State.now.to)) {
      const [a, b] = windowOf();
      const half = (b - a) / 2;
      State.change({ from: row.t - half, to: row.t + half });
      place = places.get(id);
    }
    if (!place) return;
    const { scrollTop, clientHeight } = board();
    if (place.y < scrollTop + 30 || place.y > scrollTop + clientHeight - AXIS - 60) {
      board().scrollTop = place.y - clientHeight / 2;
      inSight();
      paint();
    }
    if (focus) nodes.get(id)?.focus({ preventScroll: true });
  }

  /** Bring the first of these into sight, unless one of them is. */
  function nearest(ids) {
    const { scrollTop, clientHeight } = board();
    const seen = ids.some((id) => places.get(id)?.y > scrollTop && places.get(id)?.y < scrollTop + clientHeight - AXIS);
    const first = ids.find((id) => places.has(id));
    if (!seen && first) reveal(first);
  }

  /** The decision one step away: in the lane by time, or in the next lane with something shown. */
  function next(id, key) {
    const visible = (lane) => [...lane.packed.marks, ...lane.packed.dots].map((mark) => mark.row).filter((row) => App.shown(row) && Data.there(row)).sort((a, b) => a.t - b.t || (a.id < b.id ? -1 : 1));
    const place = places.get(id);
    if (!place) return lanes.map(visible).find((rows) => rows.length)?.at(-1)?.id;
    const rows = visible(lanes[place.lane]);
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const before = rows.filter((row) => row.t < place.row.t || (row.t === place.row.t && row.id < id));
      return key === "ArrowLeft" ? before.at(-1)?.id : rows.slice(before.length).find((row) => row.id !== id)?.id;
    }
    const way = key === "ArrowDown" ? 1 : -1;
    for (let lane = place.lane + way; lanes[lane]; lane += way) {
      const others = visible(lanes[lane]);
      const far = (row) => Math.abs(places.get(row.id).x - place.x);
      if (others.length) return others.reduce((a, b) => (far(b) < far(a) ? b : a)).id;
    }
    return undefined;
  }

  function zoom(factor, at = 0.5) {
    const [from, to] = windowOf();
    const [a, b] = Data.span;
    const wide = Math.max(State.DAY / 24, Math.min(b - a, (to - from) * factor));
    const start = Math.max(a, Math.min(from + (to - from) * at - wide * at, b - wide));
    show(start, start + wide);
  }
  const show = (from, to) => State.change(from <= Data.span[0] && to >= Data.span[1] ? { from: 0, to: 0 } : { from, to });
  function pan(pixels) {
    const [from, to] = windowOf();
    const wide = to - from;
    const start = Math.max(Data.span[0], Math.min(from + (pixels / (ends()[1] - ends()[0])) * wide, Data.span[1] - wide));
    show(start, start + wide);
  }

  function start() {
    board().addEventListener("scroll", () => { inSight(); }, { passive: true });
    board().addEventListener("wheel", (event) => {
      if (State.now.view !== "time") return;
      const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        const [a, b] = ends();
        zoom(Math.exp(event.deltaY / 300), Math.max(0, Math.min(1, (event.clientX - board().getBoundingClientRect().left - a) / (b - a))));
      } else if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        event.preventDefault();
        pan(across);
      }
    }, { passive: false });
    const activate = (event) => {
      const mark = event.target.closest("[data-id]");
      const lane = event.target.closest("[data-lane]");
      const dense = event.target.closest("[data-dense]");
      const edge = event.target.closest("[data-edge]");
      if (edge) App.open(Edges.other(edge), { focus: true });
      else if (mark) App.open(mark.dataset.id === State.now.id && event.type === "click" ? "" : mark.dataset.id, { focus: true });
      else if (lane || dense) State.change({ lane: State.now.lane ? "" : (lane?.dataset.lane ?? dense.dataset.dense) });
      else if (event.type === "click") App.open("");
    };
    $("lanes").addEventListener("click", activate);
    $("lanes").addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && event.target.closest("[data-id],[data-lane]")) {
        event.preventDefault();
        activate(event);
      }
    });
    drags();
    tips();
  }

  function drags() {
    const at = (event) => +x.invert(event.clientX - board().getBoundingClientRect().left);
    let pulling = false;
    $("axis").addEventListener("pointerdown", (event) => {
      if (event.clientX - board().getBoundingClientRect().left < gutter) return;
      pulling = true;
      $("axis").setPointerCapture(event.pointerId);
      moveAsOf(at(event));
    });
    $("axis").addEventListener("pointermove", (event) => pulling && moveAsOf(at(event)));
    $("axis").addEventListener("pointerup", () => (pulling = false));
    $("asof").addEventListener("keydown", (event) => {
      const days = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[event.key];
      const end = { Home: Data.span[0], End: Data.span[1] }[event.key];
      if (days || end) {
        event.preventDefault();
        event.stopPropagation();
        moveAsOf(end ?? State.now.asof + days * State.DAY);
      }
    });
  }

  function facts(row) {
    const by = [Data.KINDS[Data.kind(row)], State.day(row.t), row.who].filter(Boolean).join(" · ");
    return [h("b", { dir: "auto" }, row.title), h("span", {}, by)];
  }

  /** The whole title beside the pointer, or what an edge says. */
  function tips() {
    const tip = $("tip");
    $("lanes").addEventListener("pointermove", (event) => {
      const mouse = event.pointerType === "mouse";
      const edge = mouse && event.target.closest("[data-edge]");
      const row = mouse && Data.get(event.target.closest("[data-id]")?.dataset.id);
      tip.hidden = !edge && (!row || row.id === State.now.id);
      if (tip.hidden) return;
      Dom.put(tip, ...(edge ? Edges.words(edge) : facts(row)));
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 360)}px`;
      tip.style.top = `${Math.min(event.clientY + 18, innerHeight - 90)}px`;
    });
    $("lanes").addEventListener("pointerleave", () => (tip.hidden = true));
  }

  /* What each element looks like, as attributes: a picture that any program draws, without this page's style sheet. */
  const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "fill-rule", "opacity", "font-size", "font-weight", "font-style", "display"];
  const USUAL = { stroke: "none", "stroke-width": "1px", "stroke-dasharray": "none", "stroke-linecap": "butt", "fill-rule": "nonzero", opacity: "1", "font-weight": "400", "font-style": "normal", display: "inline" };
  function dressed(original) {
    const copy = original.cloneNode(true);
    const copies = copy.querySelectorAll("*");
    original.querySelectorAll("*").forEach((node, i) => {
      const style = getComputedStyle(node);
      for (const name of ["class", "tabindex", "role", "aria-label", "aria-pressed"]) copies[i].removeAttribute(name);
      for (const name of LOOKS) {
        const value = style.getPropertyValue(name);
        if (value !== USUAL[name] && (node.tagName === "text" || !name.startsWith("font"))) copies[i].setAttribute(name, value.replace("context-stroke", "gray"));
      }
    });
    return copy;
  }

  const whole = () => lanes.forEach((lane, index) => drawn.has(index) || drawn.set(index, laneLayer.appendChild(drawLane(lane, index))));

  /** The axis and each lane as pictures of their own, which a page break leaves whole. */
  function pieces() {
    layout();
    whole();
    const arrow = svg.querySelector("defs");
    const piece = (y, tall, ...parts) => s("svg", { viewBox: `0 ${y} ${width} ${tall}` }, [arrow, ...parts].map((part) => part.cloneNode(true)));
    const axisPiece = piece(0, AXIS, $("axis-picture").firstChild);
    return [axisPiece, ...lanes.map((lane, index) => piece(lane.y, lane.height, svg.querySelector("[aria-hidden]"), drawn.get(index)))];
  }

  /** The picture as a file: every lane, as it is seen. */
  function save() {
    whole();
    const style = getComputedStyle(document.body);
    const lower = dressed(svg);
    const heading = Paper.heading(width);
    const top = dressed($("axis-picture").firstChild);
    top.setAttribute("y", heading.height);
    lower.setAttribute("y", heading.height + AXIS);
    const out = s("svg", { xmlns: "http://www.w3.org/2000/svg", width, height: height + heading.height + AXIS + 8, "font-family": style.fontFamily },
      s("title", {}, document.title), s("rect", { width: "100%", height: "100%", fill: style.backgroundColor }), heading.picture, top, lower);
    const blob = new Blob([new XMLSerializer().serializeToString(out)], { type: "image/svg+xml" });
    const link = h("a", { href: URL.createObjectURL(blob), download: `${Data.facts.name || "decisions"}.svg` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    inSight();
  }

  return {
    start, layout, paint, pieces, dressed, reveal, nearest, next, zoom, show, save, moveAsOf, stack, label, windowOf,
    get lanes() { return lanes; },
    place: (id) => places.get(id),
  };
})();
