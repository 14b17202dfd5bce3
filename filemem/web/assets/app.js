/* Puts the parts together: the bar, the legend, the keys, the stream of changes. A part redraws only what changed. */
"use strict";

const App = (() => {
  const { h, $ } = Dom;
  const narrow = matchMedia("(max-width: 760px)");

  /** Whether a record passes the search, the legend, the facets but for one, and the compared branch. */
  function shown(row, except) {
    if (!Facets.passes(row, except)) return false;
    if (Search.matches && !Search.matches.has(row.id)) return false;
    if (Data.marks && !Data.marks.has(row.id)) return false;
    const { only } = State.now;
    return !only || row.type !== "decision" || only.split(",").some((kind) => Data.is(row, kind));
  }

  /** Open a record ("" closes), and bring it into sight. */
  function open(id, { focus = false } = {}) {
    const before = State.now.id;
    State.change({ id });
    const part = State.now.view === "list" ? List : Timeline;
    if (id) part.reveal(id, focus && !narrow.matches);
    else if (focus) part.reveal(before, true);
    const row = Data.get(id);
    if (row) $("live").textContent = `${row.title}: ${Data.KINDS[Data.kind(row)] || row.type}`;
    if (id && narrow.matches) $("panel").focus();
  }

  /* ---- the bar and the legend ---- */
  function segments(id, entries, current, key) {
    $(id).replaceChildren(...entries.map(([value, name]) => h("button", { type: "button", "aria-pressed": String(value === current), onclick: () => State.change({ [key]: value, ...(key === "by" ? { lane: "" } : {}) }) }, name)));
  }

  function bar() {
    const by = State.now.by || Lanes.usual(Data.decisions);
    segments("by", Object.entries(Lanes.BY), by, "by");
    segments("view", [["time", "Time"], ["list", "List"]], State.now.view, "view");
    document.body.dataset.view = State.now.view;
    if ($("q").value !== State.now.q) $("q").value = State.now.q;
    const others = Data.facts.branches || [];
    $("branch").hidden = !others.length || Data.facts.static;
    Dom.put($("branch"), h("option", { value: "" }, "Compare a branch"), ...others.map((each) => h("option", { value: each, selected: each === State.now.branch }, each)));
    $("branch").classList.toggle("on", Boolean(State.now.branch));
    $("new").hidden = !Data.facts.can_write || Boolean(Data.facts.static);
    $("brief").hidden = Boolean(Data.facts.static);
    $("name").textContent = Data.facts.name || "Decisions";
    $("head").textContent = Data.facts.branch || "";
    document.title = `${Data.facts.name || "Decisions"} · how it was decided`;
  }

  /** The switch between the repositories of the workspace. */
  function projects() {
    const all = Data.projects;
    $("project").hidden = all.length < 2;
    $("name").classList.toggle("unseen", all.length > 1);
    const option = ({ key, name, folder, own }) => h("option", { value: own ? "" : key, title: folder, selected: (own ? "" : key) === State.now.repository }, name);
    Dom.put($("project"), all.map(option));
  }

  function legend() {
    const counts = {};
    const forked = new Set(); // topics, as `filemem status` counts them
    const there = Data.decisions.filter(Data.there);
    const rest = State.now.only;
    for (const row of there) {
      if ((Search.matches && !Search.matches.has(row.id)) || (Data.marks && !Data.marks.has(row.id)) || !Facets.passes(row)) continue;
      for (const kind of Object.keys(Data.KINDS)) if (Data.is(row, kind)) counts[kind] = (counts[kind] || 0) + 1;
      if (Data.kind(row) === "fork") forked.add(row.topic.toLowerCase().replace(/[\s_\-/.:]+/g, " "));
    }
    if (counts.fork) counts.fork = forked.size;
    const only = new Set(rest ? rest.split(",") : []);
    const chip = ([kind, name]) => h("button", { class: `chip k-${kind}`, type: "button", "data-kind": kind, "aria-pressed": String(only.has(kind)), disabled: !counts[kind] && !only.has(kind), onclick: () => {
      only.has(kind) ? only.delete(kind) : only.add(kind);
      State.change({ only: [...only].join(",") });
    } }, Dom.icon(kind), `${kind === "fork" ? "topics forked" : name} `, h("b", {}, (counts[kind] || 0).toLocaleString("en")));
    const kinds = Object.entries(Data.KINDS).filter(([kind]) => kind !== "fork" || counts.fork || only.has("fork"));
    const focused = document.activeElement?.closest?.("#legend [data-kind]")?.dataset.kind;
    const off = (name, patch) => h("button", { class: "chip off", type: "button", onclick: () => State.change(patch) }, name, " ", h("span", { "aria-hidden": "true" }, "×"));
    Dom.put($("legend"), ...kinds.map(chip),
      State.now.asof ? off(`as of ${State.day(State.now.asof)}`, { asof: 0 }) : h("button", { class: "chip", type: "button", title: "What held on a day (a)", onclick: asOf }, "As of a day…"),
      ...(State.now.lane ? [off(`only ${State.now.lane}`, { lane: "" })] : []),
      ...Facets.chosen().map(([name, patch]) => off(name, patch)),
      ...(State.now.branch ? [off(`branch ${State.now.branch}`, { branch: "" })] : []),
      ...Edges.legend(),
      h("span", { class: "sum" }, sum(there)));
    if (focused) $("legend").querySelector(`[data-kind="${focused}"]`)?.focus();
  }

  /** One sentence: what is in sight. */
  function sum(there) {
    const n = there.filter(shown).length;
    const { past, facts } = Data;
    if (past?.exact) {
      const lost = [...past.live].filter((id) => !Data.get(id)).length;
      return `${past.live.size} held on ${State.day(past.when)}${lost ? `, ${lost} of them forgotten since` : ""}`;
    }
    if (Data.marks) {
      const words = Object.entries(Object.groupBy([...Data.marks.values()], (word) => word));
      return words.length ? words.map(([word, each]) => [h("span", { class: `tag m-${word}` }, `${each.length} ${word}`), " "]) : "This branch changes no record.";
    }
    const what = facts.degraded ? ` · ${facts.degraded}` : "";
    const all = there.length.toLocaleString("en");
    return (n === there.length ? `${all} decisions` : `${n.toLocaleString("en")} of ${all} decisions`) + what;
  }

  function asOf() {
    const [a, b] = Timeline.windowOf();
    State.change({ asof: State.endOf(State.day(a + (b - a) * 0.7)), view: "time" });
    $("asof").focus();
  }

  /* ---- what changes draw ---- */
  const LAYOUT = ["by", "lane", "from", "to", "view"];
  function refresh(...keys) {
    const any = (...names) => names.some((name) => keys.includes(name));
    const focused = document.activeElement?.closest?.("#board [data-id]")?.dataset.id;
    if (any("rows")) Live.take();
    bar();
    document.body.toggleAttribute("data-empty", Welcome.draw());
    if (State.now.view === "time") {
      if (any(...LAYOUT, "rows")) Timeline.layout();
      else Timeline.paint();
      if (!any("id") || any("rows")) Strip.draw();
    }
    if (any(...Facets.KEYS, "q", "only", "type", "view", "rows", "matches", "past")) List.draw(keys.every((key) => key === "rows"));
    if (any("id", "rows", "past", "view")) {
      List.select();
      if (any("id") || !Panel.busy()) Panel.draw();
    }
    legend();
    Live.paint();
    if (focused && document.activeElement === document.body) $("board").querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  async function changed(keys) {
    if (keys.has("repository")) return location.reload(); // another memory: all begins anew
    if (keys.has("q")) Search.run();
    const names = [...keys];
    try {
      if (keys.has("asof")) {
        const whole = Data.goTo(State.now.asof);
        refresh(...names, "past");
        await whole;
        names.push("past");
      }
      if (keys.has("branch")) {
        await Data.compare(State.now.branch);
        names.push("rows", "matches");
      }
    } catch (error) {
      tell(error);
    }
    refresh(...names);
  }

  async function reload(force) {
    if ((await Data.load()) || force) {
      if (State.now.branch) await Data.compare(State.now.branch);
      Search.run();
      refresh("rows");
      edges();
    }
  }

  /** The edges come after the picture, which does not wait for them. */
  const edges = () => Edges.load().then(() => refresh("edges"), tell);

  const say = (text) => {
    $("toast").textContent = text;
    $("toast").hidden = false;
    clearTimeout(say.timer);
    say.timer = setTimeout(() => ($("toast").hidden = true), 6000);
  };
  const tell = (error) => say([error.message, error.hint].filter(Boolean).join(" "));

  /** Follow the files: what an agent saves appears by itself. A page out of sight does not listen: browsers keep six connections. */
  let events = null;
  function follow() {
    events?.close();
    events = null;
    if (Data.facts.static || document.visibilityState === "hidden") return;
    events = new EventSource(`viewer/events${State.now.repository && `?repository=${State.now.repository}`}`);
    events.addEventListener("change", async (event) => {
      if (JSON.parse(event.data).version === Data.facts.version) return;
      await reload().catch(tell);
    });
  }

  /* ---- the keyboard ---- */
  const KEYS = [
    ["/", "search; ↓ chooses, Enter opens"], ["← →", "older or newer in the lane"], ["↑ ↓", "lane above or below; in the list the next row"],
    ["[ ]", "what it replaced, what replaced it"], ["r", "read the open record as a page"], ["l", "list or timeline"], ["g", "the next kind of lanes"], ["+ - 0", "closer, wider, all"],
    ["a", "as of a day: arrows move it"], ["e", "all edges, or those of the open decision"], ["c", "compare a branch"], ["n", "new decision"], ["b", "brief for a session"], ["t", "light or dark"], ["s", "save the picture as SVG"], ["Esc", "close"]];
  const help = () => Forms.dialog("Keys", h("table", { class: "keys" }, h("tbody", {}, KEYS.map(([keys, what]) => h("tr", {}, h("th", { scope: "row" }, keys.split(" ").map((each) => [h("kbd", {}, each), " "])), h("td", {}, what))))));

  function theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a browser that keeps nothing */ }
    refresh("view");
  }

  const along = (ids) => {
    const row = ids.map(Data.get).filter(Boolean).sort((a, b) => b.t - a.t)[0];
    if (row) open(row.id, { focus: true });
  };
  const ACTIONS = {
    "/": () => { $("q").focus(); $("q").select(); }, "?": help, t: theme, s: () => Timeline.save(), b: () => $("brief").hidden || Forms.brief(),
    n: () => $("new").hidden || Forms.save(), l: () => State.change({ view: State.now.view === "list" ? "time" : "list" }), c: () => $("branch").hidden || $("branch").focus(),
    e: () => Edges.count && Edges.turn(),
    a: () => (State.now.asof ? State.change({ asof: 0 }) : asOf()),
    g: () => {
      const all = Object.keys(Lanes.BY);
      State.change({ by: all[(all.indexOf(State.now.by || Lanes.usual(Data.decisions)) + 1) % all.length], lane: "" });
    },
    "+": () => Timeline.zoom(0.6), "=": () => Timeline.zoom(0.6), "-": () => Timeline.zoom(1.6), 0: () => State.change({ from: 0, to: 0 }),
    r: () => Data.get(State.now.id) && location.assign(Panel.pageOf(Data.get(State.now.id))),
    "[": () => along(Data.get(State.now.id)?.supersedes || []), "]": () => along([Data.get(State.now.id)].flatMap((row) => (row?.superseded_by.length ? row.superseded_by : row?.proposed || []))),
    Escape: () => (State.now.id ? open("", { focus: true }) : State.now.lane ? State.change({ lane: "" }) : State.change({ asof: 0 })),
  };

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open) return;
    const closed = event.target.closest("dialog:not([open])"); // a field may keep the focus for a moment after its window has closed
    if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) && !closed) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (ACTIONS[event.key]) {
      event.preventDefault();
      ACTIONS[event.key]();
    } else if (event.key.startsWith("Arrow") && !event.target.closest("#panel, #asof")) {
      const part = State.now.view === "list" ? List : Timeline;
      const id = part.next(document.activeElement?.dataset?.id || State.now.id, event.key);
      if (!id) return;
      event.preventDefault();
      if (State.now.view === "list") List.reveal(id, true);
      else open(id, { focus: true });
    }
  }

  function listen() {
    addEventListener("keydown", keys);
    addEventListener("pagehide", () => events?.close());
    addEventListener("pageshow", (event) => event.persisted && follow());
    document.addEventListener("visibilitychange", () => "ready" in document.body.dataset && follow());
    $("new").addEventListener("click", () => Forms.save());
    $("brief").addEventListener("click", () => Forms.brief());
    $("svg").addEventListener("click", () => Timeline.save());
    $("theme").addEventListener("click", theme);
    $("help").addEventListener("click", help);
    $("project").addEventListener("change", () => {
      location.hash = new URLSearchParams({ view: State.now.view, repository: $("project").value });
      location.reload();
    });
    $("branch").addEventListener("change", () => State.change({ branch: $("branch").value }));
    $("dialog").addEventListener("click", (event) => event.target === $("dialog") && $("dialog").close());
    let frame = 0;
    new ResizeObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => State.now.view === "time" && (Timeline.layout(), Strip.draw()));
    }).observe($("board"));
  }

  async function start() {
    try { document.documentElement.dataset.theme = localStorage.getItem("theme") || ""; } catch { /* as above */ }
    listen();
    for (const part of [Timeline, Strip, List, Panel, Search, Paper]) part.start();
    State.now.repository = State.parse(location.hash).repository;
    try {
      await Data.load();
    } catch (error) {
      const told = error.status === 401 ? "Open the address that filemem web printed: it holds the key to this page." : error.hint;
      Dom.put($("board"), h("div", { class: "blank" }, h("h2", {}, error.message), h("p", {}, told)));
      if (State.now.repository) await Data.loadProjects().then(projects, tell);
      return;
    }
    if (Data.facts.static) document.head.append(h("script", { src: "viewer/assets/vendor/minisearch.js" }));
    State.on(changed);
    State.openAt(Data.recent);
    const given = State.parse(location.hash);
    Object.assign(State.now, given, { view: given.view || (narrow.matches ? "list" : "time") });
    if (given.asof) await Data.goTo(given.asof).catch(tell);
    if (given.branch) await Data.compare(given.branch).catch(tell);
    Search.run();
    refresh("rows", "view", "q", "id");
    if (given.id) (State.now.view === "list" ? List : Timeline).reveal(given.id, false);
    else if (State.now.view === "time" && given.from === Data.recent && Data.decisions.length) Timeline.reveal(Data.decisions.at(-1).id, false);
    document.body.dataset.ready = "";
    follow();
    edges();
    Data.loadProjects().then(projects, tell);
  }

  return { start, shown, open, refresh, reload, say, tell };
})();

App.start();
