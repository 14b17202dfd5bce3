/* What the reader looks at: one flat value, kept in the address, so that every view is a link and Back works. */
"use strict";

const State = (() => {
  const DAY = 864e5;
  const first = { id: "", q: "", by: "", view: "", type: "decision", only: "", topic: "", who: "", tag: "", path: "", sort: "", lane: "", asof: 0, branch: "", edges: "", repository: "", from: 0, to: 0 };
  const now = { ...first };
  const listeners = [];
  let opening = 0; // from when on the timeline shows, where the address says nothing

  /* What an address that names no start of the time means: a filter looks through everything, else what is new. */
  const FILTERS = ["q", "only", "topic", "who", "tag", "path", "lane", "asof", "branch"];
  const start = (state) => (["id", "to", ...FILTERS].some((key) => state[key]) ? 0 : opening);

  const day = (time) => new Date(time).toISOString().slice(0, 10);
  const endOf = (date) => Date.parse(`${date}T23:59:59.999Z`) || 0;

  /** The state that an address names; what it does not name is as at first. */
  function parse(hash) {
    const given = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
    const state = { ...first };
    for (const key of Object.keys(first)) if (given[key]) state[key] = given[key];
    state.asof = given.asof ? endOf(given.asof) : 0;
    state.to = given.to ? Date.parse(given.to) || 0 : 0;
    state.from = given.from ? Date.parse(given.from) || 0 : start(state); // "all" is no date
    return state;
  }

  function address() {
    const named = new URLSearchParams();
    const stamp = (time) => (time ? new Date(time).toISOString().replace(/:\d\d\.\d+Z$/, "Z") : "all");
    for (const [key, value] of Object.entries(now)) {
      if (value === (key === "from" ? start(now) : first[key])) continue;
      named.set(key, key === "asof" ? day(value) : key === "from" || key === "to" ? stamp(value) : value);
    }
    return `#${named}`;
  }

  /** Change some members; listeners hear which ones. Opening a record, and each view, is a step that Back goes back. */
  function change(asked) {
    const leaves = opening && now.from === opening && asked.from === undefined && FILTERS.some((key) => asked[key]);
    const patch = leaves ? { ...asked, from: 0 } : asked;
    const keys = new Set(Object.keys(patch).filter((key) => patch[key] !== now[key]));
    if (!keys.size) return;
    Object.assign(now, patch);
    const step = ["id", "view", "branch", "lane", "repository"].some((key) => keys.has(key));
    const target = address();
    if (target !== location.hash) history[step ? "pushState" : "replaceState"](null, "", target);
    for (const listener of listeners) listener(keys);
  }

  const follow = () => change(parse(location.hash));
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);

  const openAt = (time) => (opening = time);

  return { now, change, parse, openAt, on: (listener) => listeners.push(listener), day, endOf, DAY };
})();
