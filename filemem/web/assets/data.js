/* The records, what they are to each other, and the one place that speaks with the server. */
"use strict";

const Data = (() => {
  const KINDS = {
    holds: "holds", open: "proposed", part: "partly worked", dead: "failed or rejected", gone: "replaced", fork: "forked",
  };
  const facts = { name: "", branches: [], can_write: false };
  let rows = []; // all types, oldest first, those of a compared branch included
  let decisions = [];
  let byId = new Map();
  let kinds = new Map();
  let span = [0, 1];
  const FEW = 40; // decisions below which they stand in order, not by time
  const NEW = 60; // decisions that the page opens with, where there are many more
  let few = false;
  let recent = 0;
  let past = null; // {when, live: Set, exact} while the page shows a day in the past
  let marks = null; // id -> new | replaced | edited | removed | forked while it compares a branch

  /** What the server refused, as it said it. */
  class Refused extends Error {
    constructor(status, told) {
      super(told.error || `The server answered ${status}.`);
      Object.assign(this, { status, hint: told.hint || "", field: told.field || "" });
    }
  }

  async function ask(path, query = {}, options = {}) {
    const whole = { repository: options.method ? "" : State.now.repository, ...query };
    const named = new URLSearchParams(Object.entries(whole).filter(([, value]) => value !== "" && value != null));
    let answer;
    try {
      answer = await fetch(`viewer/${path}${named.size ? `?${named}` : ""}`, { credentials: "same-origin", ...options });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, { error: "The server does not answer.", hint: "Is filemem web still running?" });
    }
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Refused(answer.status, told);
    return told;
  }
  const post = (path, body) =>
    ask(path, {}, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

  /** A row as the page uses it: one line of title, every list there. */
  function furnish(row) {
    const title = Dom.line(row.title) || row.id;
    const topic = Dom.line(row.topic);
    const lists = { supersedes: [], superseded_by: [], affects: [], tags: [] };
    const made = { ...lists, ...row, title, topic, t: row.created || 0, proposed: [] };
    made.words = [title, topic, row.id, row.area, row.who, ...made.affects, ...made.tags, row.words].join("\n").toLowerCase();
    return made;
  }

  function take(told, extra = []) {
    Object.assign(facts, told, { records: null });
    const here = new Set(told.records.map((row) => row.id));
    const all = [...told.records, ...extra.filter((row) => !here.has(row.id)).map((row) => ({ ...row, elsewhere: true }))];
    rows = all.map(furnish).sort((a, b) => a.t - b.t || (a.id < b.id ? -1 : 1));
    byId = new Map(rows.map((row) => [row.id, row]));
    for (const row of rows) row.superseded_by = row.superseded_by.filter((id) => id !== row.id);
    for (const row of rows) {
      for (const id of row.supersedes) {
        const old = byId.get(id);
        const list = accepted(row) ? "superseded_by" : "proposed"; // what would replace it stands in its chain too
        if (old && !old[list].includes(row.id)) old[list] = [...old[list], row.id];
      }
    }
    decisions = rows.filter((row) => row.type === "decision");
    const dated = decisions.filter((row) => row.t);
    const [oldest, newest] = dated.length ? [dated[0].t, dated.at(-1).t] : [Date.now() - 30 * State.DAY, Date.now()];
    const width = Math.max(newest - oldest, State.DAY);
    span = [oldest - width * 0.02, newest + width * 0.012];
    few = dated.length < FEW || newest - oldest < State.DAY;
    const since = dated.at(-NEW)?.t;
    recent = !few && dated.length > 1.5 * NEW ? since - (newest - since) * 0.02 : 0;
    recount();
  }

  let projects = [];
  let told = null;
  let compared = [];
  const inlined = document.getElementById("data");
  /** Read all rows; says whether anything is new. */
  async function load() {
    const next = inlined ? JSON.parse(inlined.textContent) : await ask("data");
    facts.static = !!inlined;
    const same = told && told.version === next.version && told.head === next.head;
    told = next;
    if (!same) take(told, compared);
    return !same;
  }

  /** The repositories that the user registered to be asked together, the one at hand first; none where it is not one of them. */
  async function loadProjects() {
    if (!facts.static) projects = (await ask("projects", { repository: "" })).projects;
  }

  const accepted = (row) => row.status !== "proposed" && row.status !== "rejected";

  /** The state of a decision today. */
  function today(row) {
    if (row.type !== "decision") return "other";
    if (row.forked) return "fork";
    if (row.status === "rejected" || row.outcome === "failed") return "dead";
    if (row.status === "proposed") return "open";
    if (!row.live || row.status === "deprecated") return "gone";
    return row.outcome === "partial" ? "part" : "holds";
  }

  /** The state on a day in the past: what held is what the server says held; the rest by the dates of the records. */
  function then(row) {
    if (row.type !== "decision") return "other";
    const state = today(row);
    if (past.exact && past.live.has(row.id)) return state === "part" ? state : past.heads.get(row.topic) > 1 && state === "fork" ? state : "holds";
    if (past.exact) return state === "dead" || state === "open" ? state : "gone";
    if (row.superseded_by.some((id) => byId.get(id)?.t <= past.when)) return "gone";
    return state === "gone" || state === "fork" ? "holds" : state;
  }

  function recount() {
    const here = (row) => (marks?.get(row.id) === "replaced" ? "gone" : today(row)); // as the compared branch has it
    kinds = new Map(rows.map((row) => [row.id, past ? then(row) : here(row)]));
  }

  /** Whether a decision holds, as `filemem status` counts it: also one that failed, while nothing has replaced it. */
  function holds(row) {
    if (marks?.get(row.id) === "replaced") return false;
    if (!past) return Boolean(row.live);
    return past.exact ? past.live.has(row.id) : /holds|part|fork/.test(kinds.get(row.id));
  }
  /** Whether a record belongs to a chip of the legend. */
  const is = (row, kind) => (kind === "holds" ? holds(row) : kinds.get(row.id) === kind);

  /** Whether the record was there on the day that is shown. */
  const there = (row) => !past || (past.exact && past.live.has(row.id)) || row.t <= past.when;

  /** Show a day, first by the dates that the records carry, then as the repository's history says. */
  async function goTo(when) {
    past = when ? { when, live: new Set(), exact: false } : null;
    recount();
    if (!when || facts.static) return;
    const answer = await ask("at", { when: State.day(when) });
    if (past?.when !== when) return;
    const heads = new Map();
    for (const id of answer.live) heads.set(byId.get(id)?.topic, (heads.get(byId.get(id)?.topic) || 0) + 1);
    past = { when, live: new Set(answer.live), heads, exact: true };
    recount();
  }

  /** What a branch changes: rows that only it has join the others. */
  async function compare(branch) {
    marks = null;
    compared = [];
    if (branch) {
      const answer = await ask("compare", { branch });
      compared = answer.records || [];
      marks = new Map();
      const put = (ids, word) => (ids || []).forEach((id) => marks.set(id, word));
      put(answer.replaced, "replaced");
      put(answer.changed, "edited");
      put(answer.gone, "removed");
      put(answer.added, "new");
      facts.compared = answer;
    }
    take(told, compared);
    if (marks) for (const row of decisions) if (facts.compared.forked?.includes(row.topic) && !marks.has(row.id) && row.forked) marks.set(row.id, "forked");
  }

  /** All decisions that replaced each other with this one, newest first. */
  function chain(id) {
    const seen = new Set();
    const wait = [id];
    while (wait.length) {
      const next = wait.pop();
      const row = byId.get(next);
      if (!row || seen.has(next)) continue;
      seen.add(next);
      wait.push(...row.supersedes, ...row.superseded_by, ...row.proposed);
    }
    return [...seen].map((each) => byId.get(each)).sort((a, b) => b.t - a.t || (a.id < b.id ? 1 : -1));
  }

  /** One record whole. A static site keeps it in a script beside its page: a script works where a file cannot be fetched. */
  function record(id) {
    const row = byId.get(id);
    if (!facts.static) return ask("record", { id, at: row?.elsewhere ? facts.compared.head.commit : "" });
    return new Promise((resolve, reject) => {
      globalThis.viewerRecord = resolve;
      const script = Dom.h("script", { src: row.page.replace(/[^/]*$/, "record.js") });
      script.onerror = () => reject(new Refused(404, { error: "This record's page is missing.", hint: row.page }));
      script.onload = () => script.remove();
      document.head.append(script);
    });
  }

  return {
    KINDS, facts, ask, post, load, loadProjects, goTo, compare, chain, record, Refused, there, accepted, is,
    get rows() { return rows; },
    get projects() { return projects; },
    get decisions() { return decisions; },
    get span() { return span; },
    get few() { return few; },
    get recent() { return recent; },
    get past() { return past; },
    get marks() { return marks; },
    get: (id) => byId.get(id),
    kind: (row) => kinds.get(row.id),
  };
})();
