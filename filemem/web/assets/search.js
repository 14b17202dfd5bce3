/* What is looked for: the words at once, in the page; then the server's hybrid search, which also finds by meaning. */
"use strict";

const Search = (() => {
  const WAIT = 120; // ms without a key before the server is asked
  const MOST = 30; // hits asked for
  const CLOSE = 0.5; // of the best score: what scores less is not shown
  const SHOWN = 9; // hits in the list below the field
  let matches = null; // ids while something is looked for
  let hits = []; // [{id, score, snippet}], best first
  let note = "";
  let timer = 0;
  let asked = null;
  let mini = null;
  let at = -1;

  /** The rows that have every word. */
  function words(q) {
    const all = q.toLowerCase().split(/\s+/).filter(Boolean);
    return Data.rows.filter((row) => all.every((word) => row.words.includes(word)));
  }

  function miniSearch(q) {
    if (!mini) {
      mini = new MiniSearch({ fields: ["title", "topic", "words"], searchOptions: { boost: { title: 3, topic: 2 }, prefix: true, fuzzy: 0.15 } });
      mini.addAll(Data.rows.map(({ id, title, topic, words }) => ({ id, title, topic, words })));
    }
    return { hits: mini.search(q).slice(0, MOST), note: "" };
  }

  async function ask(q) {
    asked?.abort();
    asked = new AbortController();
    try {
      const answer = Data.facts.static ? miniSearch(q) : await Data.ask("search", { q, limit: MOST }, { signal: asked.signal });
      if (q !== State.now.q) return;
      const least = (answer.hits[0]?.score || 0) * CLOSE;
      hits = answer.hits.filter((hit) => Data.get(hit.id) && hit.score >= least);
      note = answer.note || "";
      matches = new Set([...matches, ...hits.map((hit) => hit.id)]);
      App.refresh("matches");
      drop();
      if (State.now.view === "time" && hits.length) Timeline.nearest(hits.map((hit) => hit.id));
    } catch (error) {
      if (error.name !== "AbortError") App.tell(error);
    }
  }

  /** Look for what stands in the state: words now, meaning after a moment. */
  function run() {
    const { q } = State.now;
    clearTimeout(timer);
    at = -1;
    note = "";
    if (!q.trim()) {
      matches = null;
      hits = [];
      asked?.abort();
    } else {
      const found = words(q.trim());
      matches = new Set(found.map((row) => row.id));
      hits = found.slice(-MOST).reverse().map((row) => ({ id: row.id }));
      timer = setTimeout(() => ask(q.trim()), WAIT);
    }
    drop();
  }

  /* The list below the field, as a combobox: arrows choose, Enter opens, Escape closes. */
  const field = () => Dom.$("q");
  const open = () => document.activeElement === field() && matches && State.now.view !== "list";
  function snippet(hit) {
    const parts = String(hit.snippet || "").split(/(\ue000[^\ue001]*\ue001)/);
    return parts.map((part) => (part.startsWith("\ue000") ? Dom.h("mark", {}, part.slice(1, -1)) : part));
  }
  function drop() {
    const shown = open() ? hits.filter((hit) => Data.get(hit.id)).slice(0, SHOWN) : [];
    const box = Dom.$("hits");
    const option = (hit, i) => {
      const row = Data.get(hit.id);
      return Dom.h("li", { id: `hit-${i}`, role: "option", "aria-selected": String(i === at), onmousedown: (event) => { event.preventDefault(); pick(i); } },
        Dom.icon(Data.kind(row)), Dom.h("span", { class: "hit-title", dir: "auto" }, row.title),
        Dom.h("time", {}, State.day(row.t)), hit.snippet && Dom.h("span", { class: "hit-text", dir: "auto" }, snippet(hit)));
    };
    Dom.put(box, ...shown.map(option));
    if (open() && (note || !shown.length)) box.append(Dom.h("li", { class: "note", role: "option", "aria-disabled": "true", "aria-selected": "false" }, note || "No record has these words."));
    box.hidden = !box.childElementCount;
    field().setAttribute("aria-expanded", String(!box.hidden));
    if (at >= 0) field().setAttribute("aria-activedescendant", `hit-${at}`);
    else field().removeAttribute("aria-activedescendant");
  }
  function pick(i) {
    const hit = hits[i];
    if (!hit) return;
    at = i;
    App.open(hit.id, { focus: false });
    drop();
  }

  function keys(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const shown = Math.min(hits.length, SHOWN);
    if (step && shown) {
      event.preventDefault();
      if (State.now.view === "list") return List.focus(0);
      at = (at + step + shown) % shown;
      drop();
    } else if (event.key === "Enter") {
      event.preventDefault();
      pick(Math.max(at, 0));
      if (hits.length) field().blur();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      if (field().value) State.change({ q: "" });
      else field().blur();
    }
  }

  function start() {
    field().addEventListener("input", () => State.change({ q: field().value }));
    field().addEventListener("keydown", keys);
    field().addEventListener("focus", drop);
    field().addEventListener("blur", drop);
  }

  return {
    start, run, snippet,
    get matches() { return matches; },
    get hits() { return hits; },
    get note() { return note; },
  };
})();
