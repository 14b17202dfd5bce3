/* What decisions say of each other besides what replaced them: builds on, debates, synthesizes. Drawn over the timeline for the
   decision that is open, or for all; what `/graph` tells is all that is drawn. */
"use strict";

const Edges = (() => {
  const { s, h, $ } = Dom;
  const KINDS = {
    builds_on: ["builds on", "Builds on", "Basis for"],
    debates: ["debates", "Debates", "Debated by"],
    synthesizes: ["synthesizes", "Synthesizes", "Synthesized in"],
  };
  const STUB = 44; // px of an edge whose other end is not in sight
  const NEAR = 40; // px between two places for which an edge goes round by the left
  let edges = [];
  let ends = new Map(); // id -> edges that begin or end there

  /** Read them; a written site has them in its data. */
  async function load() {
    const answer = Data.facts.static ? Data.facts : await Data.ask("../graph", { edges: "true" });
    edges = (answer.edges || []).filter((edge) => edge.relationship in KINDS && Data.get(edge.from) && Data.get(edge.to));
    edges.forEach((edge, at) => (edge.at = at));
    ends = new Map();
    for (const edge of edges) for (const id of new Set([edge.from, edge.to])) ends.set(id, [...(ends.get(id) || []), edge]);
  }

  const wanted = () => (State.now.edges ? edges : ends.get(State.now.id) || []);

  /** The path from one place to another; a short one where an end is not in sight. */
  function path(from, to) {
    if (!from) return `M${to.x - STUB} ${to.y}H${to.x - 9}`;
    if (!to) return `M${from.x - 9} ${from.y}H${from.x - STUB}`;
    const way = Math.sign(to.y - from.y) || -1;
    if (from.y === to.y) return `M${from.x} ${from.y - 8}Q${(from.x + to.x) / 2} ${from.y - 30} ${to.x} ${to.y - 9}`;
    if (Math.abs(from.x - to.x) < NEAR) {
      const out = Math.min(from.x, to.x) - Math.min(64, 14 + Math.abs(from.y - to.y) / 2);
      return `M${from.x - 9} ${from.y}C${out} ${from.y} ${out} ${to.y} ${to.x - 10} ${to.y}`;
    }
    const middle = (from.y + to.y) / 2;
    return `M${from.x} ${from.y + 8 * way}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y - 9 * way}`;
  }

  /** One edge: the dashed line, and a broad one that cannot be seen, for the pointer. */
  function line(edge) {
    const [from, to] = [Timeline.place(edge.from), Timeline.place(edge.to)];
    if (!from && !to) return null;
    const d = path(from, to);
    const dim = ![edge.from, edge.to].every((id) => App.shown(Data.get(id)) && Data.there(Data.get(id)));
    const state = State.now.id && !(ends.get(State.now.id) || []).includes(edge) ? " back" : "";
    return s("g", { class: `edge e-${edge.relationship}${dim ? " dim" : state}`, "data-edge": edge.at },
      s("path", { class: "stroke", d, "marker-end": "url(#arrow)" }), s("path", { class: "reach", d }));
  }

  /** Those of the open decision, or all that have an end in a lane which is drawn. */
  const picture = (drawn) => wanted().filter((edge) => [edge.from, edge.to].some((id) => drawn(Timeline.place(id)))).map(line);

  const sample = (kind) => s("svg", { class: `icon edge e-${kind}`, width: 24, height: 14, viewBox: "-12 -7 24 14", "aria-hidden": "true" }, s("path", { class: "stroke", d: "M-12 0H12" }));

  /** The legend of the kinds that there are, and the switch; nothing where there is no edge. */
  function legend() {
    const counts = Object.groupBy(edges, (edge) => edge.relationship);
    const kinds = Object.keys(KINDS).filter((kind) => counts[kind]);
    if (!kinds.length) return [];
    const all = Boolean(State.now.edges);
    return [h("span", { class: "edges time-only" },
      kinds.map((kind) => h("span", { class: "chip", "data-kind-of-edge": kind }, sample(kind), `${KINDS[kind][0]} `, h("b", {}, counts[kind].length.toLocaleString("en")))),
      h("button", { class: "chip", type: "button", "aria-pressed": String(all), title: "Edges of every decision (e)", onclick: turn }, "All edges"))];
  }
  const turn = () => State.change({ edges: State.now.edges ? "" : "all" });

  /** The edge at the pointer, in words: who, what, whom, and why. */
  function words(node) {
    const edge = edges[node.dataset.edge];
    const [from, to] = [Data.get(edge.from), Data.get(edge.to)];
    return [h("b", { dir: "auto" }, from.title), h("span", {}, `${KINDS[edge.relationship][0]}`), h("b", { dir: "auto" }, to.title), edge.reason && h("span", { class: "reason", dir: "auto" }, Dom.line(edge.reason))];
  }

  /** The end to which a click on an edge leads. */
  function other(node) {
    const edge = edges[node.dataset.edge];
    return edge.from === State.now.id ? edge.to : edge.from;
  }

  return { KINDS, load, picture, legend, turn, words, other, get count() { return edges.length; } };
})();
