/* One record whole: what was decided and why, what it replaced, what it governs, how it turned out, and who changed it when. */
"use strict";

const Panel = (() => {
  const { h, $ } = Dom;
  const EDGES = {
    supersedes: ["Replaces", "Replaced by"], related: ["Related to", "Related to"],
    ...Object.fromEntries(Object.entries(Edges.KINDS).map(([kind, names]) => [kind, names.slice(1)])),
  };
  const DRIFT = 1; // commits to governed code from which its change is shown
  let record = null; // as the server told it
  let wait = 0;

  const section = (title, ...children) => (children.flat().some(Boolean) ? [h("h3", {}, title), ...children] : []);
  const when = (time) => (time ? new Date(time).toISOString().slice(0, 16).replace("T", " ") : "");
  const to = (id, ...text) => h("a", { href: `#id=${encodeURIComponent(id)}`, "data-to": id, dir: "auto" }, text);
  const copy = (text, name) => h("button", { class: "copy", type: "button", onclick: async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard?.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = name), 1500);
  } }, name);

  async function draw() {
    const { id } = State.now;
    const row = id && Data.get(id);
    const opened = Boolean(id);
    const changed = $("main").classList.contains("open") !== opened;
    $("main").classList.toggle("open", opened);
    if (changed && State.now.view === "time") Timeline.layout();
    if (!id) return Dom.put($("panel"));
    if (!row) return Dom.put($("panel"), close(), h("h2", {}, "No such record"), h("p", { class: "soft" }, `${Dom.line(id)} is not in this memory, or not in this branch.`));
    if (record?.id !== id) record = null;
    show(row);
    const mine = ++wait;
    try {
      const told = await Data.record(id);
      if (mine !== wait || State.now.id !== id) return undefined;
      record = told;
      show(row);
    } catch (error) {
      if (mine === wait) $("panel").append(h("p", { class: "trouble", role: "alert" }, `${error.message} ${error.hint || ""}`));
    }
    return undefined;
  }

  const close = () => h("button", { class: "close", type: "button", "aria-label": "Close the record", onclick: () => App.open("", { focus: true }) }, "×");

  function show(row) {
    const top = $("panel").dataset.id === row.id ? $("panel").scrollTop : 0;
    $("panel").dataset.id = row.id;
    const kind = Data.kind(row);
    const told = record || {};
    const state = row.type === "decision" ? Data.KINDS[kind] : row.kind || row.type;
    const deprecated = row.status === "deprecated" ? " · deprecated" : "";
    const mark = Data.marks?.get(row.id);
    Dom.put($("panel"), 
      close(),
      h("p", { class: "badges" },
        h("span", { class: `badge k-${kind}` }, Dom.icon(kind), state + deprecated),
        row.outcome === "success" && h("span", { class: "badge k-holds" }, "✓ worked"),
        mark && h("span", { class: `tag m-${mark}` }, `${mark} on ${State.now.branch}`),
        Data.past && h("span", { class: "tag" }, `as of ${State.day(Data.past.when)}`)),
      h("h2", { dir: "auto" }, headline(row)),
      h("p", { class: "soft facts" }, ...[row.topic, when(row.t), row.who].filter(Boolean).map((text) => h("span", { dir: "auto" }, text))),
      row.forked && h("p", { class: "trouble" }, "Two or more decisions hold on this topic. A decision that replaces them all ends the fork: ", h("code", {}, "filemem resolve"), "."),
      ...(record ? body(row, told) : [h("p", { class: "soft" }, "Loading…")]),
    );
    $("panel").scrollTop = top;
  }

  /** The decision itself where it is one sentence; a row's title is cut. */
  function headline(row) {
    const whole = Dom.line(record?.decision);
    return row.title.endsWith("…") && whole.length <= 240 && whole.startsWith(row.title.slice(0, -1)) ? whole : row.title;
  }

  function body(row, told) {
    const same = (html) => Dom.line(Dom.safe(html).textContent) === headline(row);
    const chained = new Set(Data.chain(row.id).map((each) => each.id));
    const similar = (told.similar || []).filter((each) => !chained.has(each.id));
    const list = (each) => each?.length && h("ul", { class: "plain" }, each.map((text) => h("li", { dir: "auto" }, Dom.line(text))));
    const paths = (each) => each?.length && h("ul", { class: "files" }, each.map((path) => h("li", {}, h("code", {}, Dom.line(path)))));
    return [
      told.note && h("p", { class: "notice", dir: "auto" }, Dom.line(told.note)),
      ...section("Decision", told.decision_html && !same(told.decision_html) && Dom.safe(told.decision_html)),
      ...section("Why", told.reasoning_html && Dom.safe(told.reasoning_html)),
      ...section(row.type === "decision" ? "More" : "Text", told.text_html && !same(told.text_html) && Dom.safe(told.text_html)),
      ...section("Next steps", told.next_steps_html && Dom.safe(told.next_steps_html)),
      ...section("Facts", list(told.facts)), ...section("Concepts", list(told.concepts)),
      ...section("Open files", paths(told.open_files)), ...section("Files read", paths(told.files_read)), ...section("Files changed", paths(told.files_modified)),
      ...section("Ruled out", told.rejected?.length && h("ul", { class: "ruled-out" }, told.rejected.map((each) => h("li", { dir: "auto" }, Dom.line(each))))),
      ...chain(row),
      ...edges(told.related || []),
      ...governed(told.governed || [], row),
      ...outcome(row, told),
      ...section("Similar", similar.length && h("ul", { class: "links-list" }, similar.map((each) => h("li", {}, icon(each.id), to(each.id, Dom.line(each.title)), h("small", {}, `${Math.round(each.score * 100)} %`))))),
      ...commits(told.commits || []),
      ...section("File", h("p", { class: "command" }, h("code", {}, row.path || told.path || ""), copy(location.href, "Copy link"))),
      ...actions(row, told),
    ];
  }

  const icon = (id) => Dom.icon(Data.get(id) ? Data.kind(Data.get(id)) : "other");

  function chain(row) {
    if (row.type !== "decision") return [];
    const all = Data.chain(row.id);
    if (all.length < 2) return [];
    return section("How it was decided", h("ol", { class: "chain" }, all.map((each) => {
      const kind = Data.kind(each);
      return h("li", { class: each.id === row.id ? "now" : "" }, Dom.icon(kind), each.id === row.id ? h("span", { "aria-current": "true", dir: "auto" }, each.title) : to(each.id, each.title),
        h("small", {}, `${State.day(each.t)} · ${Data.KINDS[kind]}`));
    })));
  }

  function edges(related) {
    const groups = new Map();
    for (const each of related) {
      if (each.kind === "supersedes" && !each.reason) continue; // the chain shows it
      const name = (EDGES[each.kind] || [each.kind, each.kind])[each.in ? 1 : 0];
      groups.set(name, [...(groups.get(name) || []), each]);
    }
    return [...groups].flatMap(([name, members]) => section(name, h("ul", { class: "links-list" }, members.map((each) =>
      h("li", {}, icon(each.id), to(each.id, Dom.line(each.title) || each.id), each.reason && h("small", { dir: "auto" }, Dom.line(each.reason)))))));
  }

  function governed(files, row) {
    const all = files.length ? files : row.affects.map((path) => ({ path }));
    const changed = (each) => each.commits >= DRIFT && `△ changed in ${each.commits} commit${each.commits > 1 ? "s" : ""} since`;
    const lost = (each) => /missing|deleted|gone/.test(each.state || "") && "✕ no longer there";
    return section("Governs", all.length && h("ul", { class: "files" }, all.map((each) =>
      h("li", {}, h("code", {}, each.path), (lost(each) || changed(each)) && h("small", { class: "drift" }, lost(each) || changed(each))))));
  }

  function outcome(row, told) {
    if (row.type !== "decision") return [];
    const past = (told.outcomes || []).map((each) => h("li", {}, h("b", {}, each.outcome), h("small", {}, when(each.at)), each.reason && h("p", { dir: "auto" }, Dom.line(each.reason))));
    return section("How it turned out", past.length && h("ul", { class: "outcomes" }, past), (told.evidence || []).map((each) => h("p", { class: "soft", dir: "auto" }, Dom.line(each))), told.limitation && h("p", { dir: "auto" }, Dom.line(told.limitation)), Forms.outcome(row, told));
  }

  function commits(all) {
    const line = (each) => h("tr", {}, h("td", {}, when(each.when).slice(0, 10)), h("td", {}, h("span", { dir: "auto" }, Dom.line(each.subject)), h("small", {}, h("code", {}, String(each.id).slice(0, 8)), " ", h("span", { dir: "auto" }, Dom.line(each.who)))));
    const [shown, rest] = [all.slice(0, 6), all.slice(6)];
    return section("Commits", all.length && h("table", { class: "commits" }, h("tbody", {}, shown.map(line))), rest.length && h("details", {}, h("summary", {}, `${rest.length} more`), h("table", { class: "commits" }, h("tbody", {}, rest.map(line)))));
  }

  /** Where a record stands as a document. */
  const pageOf = (row) => row.page || `viewer/read?${new URLSearchParams({ id: row.id, ...(State.now.repository && { repository: State.now.repository }) })}`;

  function actions(row, told) {
    if (row.elsewhere) return [];
    const page = h("a", { class: "button", href: pageOf(row) }, "Read as a page");
    const write = Data.facts.can_write && !Data.facts.static && [
      row.type === "decision" && h("button", { class: "button", type: "button", onclick: () => Forms.save({ replaces: row }) }, "Decide anew…"),
      h("button", { class: "button", type: "button", onclick: () => Forms.forget(row, told) }, "Forget…")];
    return [h("p", { class: "actions" }, page, write)];
  }

  /** Whether something is typed into the panel, which a drawing of it would lose. */
  const busy = () => Boolean(State.now.id) && $("panel").dataset.id === State.now.id && Boolean($("panel").querySelector("form.touched"));

  function start() {
    $("panel").addEventListener("click", (event) => {
      const link = event.target.closest("[data-to]");
      if (!link || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      App.open(link.dataset.to);
      $("panel").focus({ preventScroll: true });
    });
  }

  return { draw, start, busy, copy, when, pageOf };
})();
