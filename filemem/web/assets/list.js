/* All records as a list, newest first, of one type or of all; what a search found stands in its order, with the text found. */
"use strict";

const List = (() => {
  const { h, $ } = Dom;
  const PART = 150; // rows drawn at a time
  const TYPES = { decision: "Decisions", observation: "Observations", checkpoint: "Checkpoints", all: "All" };
  let rows = [];
  let drawn = 0;
  let month = "";
  let nodes = new Map();
  let several = false; // more than one person, so that names say something

  const ofType = (row) => State.now.type === "all" || row.type === State.now.type;

  function wanted() {
    const all = Data.rows.filter((row) => ofType(row) && App.shown(row) && Data.there(row)).reverse();
    if (!Search.matches || State.now.sort) return Facets.ordered(all);
    const best = Search.hits.map((hit) => Data.get(hit.id));
    const rest = Data.rows.filter((row) => Search.matches.has(row.id) && !Search.hits.some((hit) => hit.id === row.id)).reverse();
    return [...best, ...rest].filter((row) => row && ofType(row) && App.shown(row) && Data.there(row));
  }

  /** Draw anew; `keep` keeps the reader's place, when only the records have changed. */
  function draw(keep) {
    if (State.now.view !== "list") return;
    const { scrollTop } = $("board");
    const before = keep ? drawn : 0;
    const count = (type) => Data.rows.filter((row) => (type === "all" || row.type === type) && Data.there(row)).length;
    Dom.put($("types"), ...Object.entries(TYPES).map(([type, name]) =>
      h("button", { "aria-pressed": String(State.now.type === type), onclick: () => State.change({ type }) }, name, " ", h("b", {}, count(type).toLocaleString("en")))));
    rows = wanted();
    Facets.draw(Data.rows.filter((row) => ofType(row) && Data.there(row)), rows);
    several = new Set(Data.rows.map((row) => row.who)).size > 1;
    drawn = 0;
    form = new Set(rows.map((row) => State.day(row.t).slice(0, 7))).size * 4 > rows.length ? forms.year : forms.month;
    month = "";
    nodes = new Map();
    Dom.put($("rows"));
    if (!rows.length) {
      const told = Search.matches ? "Nothing was found." : Data.rows.length ? "Nothing is left with this filter." : "Nothing has been saved yet.";
      $("rows").append(h("p", { class: "empty" }, told, " ", Search.note));
    }
    do more(); while (drawn < Math.min(before, rows.length));
    $("board").scrollTop = keep ? scrollTop : 0;
  }

  /* Months; years where the months would hold one record or two. */
  const forms = { month: new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" }), year: new Intl.DateTimeFormat("en", { year: "numeric", timeZone: "UTC" }) };
  let form = forms.month;
  const monthOf = (row) => (row.t ? form.format(row.t) : "Without a date");
  const part = (row) => Facets.heading(row) || (Search.matches && !State.now.sort ? "Found" : monthOf(row));
  function more() {
    for (const row of rows.slice(drawn, drawn + PART)) {
      const next = part(row);
      if (next !== month) {
        const n = rows.filter((each) => part(each) === next).length;
        $("rows").append(h("h2", {}, next, " ", h("span", {}, String(n))));
        month = next;
      }
      $("rows").append(line(row));
    }
    drawn = Math.min(rows.length, drawn + PART);
  }

  function line(row) {
    const kind = Data.kind(row);
    const hit = Search.matches && Search.hits.find((each) => each.id === row.id);
    const state = row.type === "decision" ? Data.KINDS[kind] : row.kind || row.type;
    const mark = Data.marks?.get(row.id);
    const node = h("button", { class: `row k-${kind}`, "data-id": row.id, onclick: () => App.open(row.id === State.now.id ? "" : row.id) },
      Dom.icon(kind),
      h("span", { class: "row-title", dir: "auto" }, row.title),
      h("span", { class: "row-facts" }, h("time", {}, row.t ? State.day(row.t) : "no date"), h("span", {}, state), row.topic && h("span", { dir: "auto" }, row.topic), several && h("span", { dir: "auto" }, row.who), mark && h("span", { class: `tag m-${mark}` }, mark)),
      hit?.snippet && h("span", { class: "row-text", dir: "auto" }, Search.snippet(hit)));
    node.classList.toggle("sel", row.id === State.now.id);
    nodes.set(row.id, node);
    return node;
  }

  function select() {
    for (const [id, node] of nodes) node.classList.toggle("sel", id === State.now.id);
  }

  const focus = (i) => $("rows").querySelectorAll(".row")[i]?.focus();
  function reveal(id, focused) {
    while (!nodes.has(id) && drawn < rows.length) more();
    const node = nodes.get(id);
    node?.scrollIntoView({ block: "nearest" });
    if (focused) node?.focus({ preventScroll: true });
  }
  function next(id, key) {
    const i = rows.findIndex((row) => row.id === id);
    if (key === "ArrowDown" || key === "ArrowRight") return rows[i + 1]?.id;
    return rows[i < 0 ? 0 : i - 1]?.id;
  }

  function start() {
    $("board").addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = $("board");
      if (State.now.view === "list" && drawn < rows.length && scrollTop + clientHeight > scrollHeight - 600) more();
    }, { passive: true });
  }

  /** Draw the rows that wait for the reader to scroll. */
  const whole = () => { while (drawn < rows.length) more(); };

  return { draw, select, start, focus, reveal, next, whole, TYPES };
})();
