/* What narrows the list: topic, author, tag and governed path, each with its counts; its order; and what it shows as a table. */
"use strict";

const Facets = (() => {
  const { h, $ } = Dom;
  const PARTS = { // what a record says of each, none or several
    topic: { name: "Topic", of: (row) => [row.topic] },
    who: { name: "Author", of: (row) => [Dom.line(row.who)] },
    tag: { name: "Tag", of: (row) => row.tags.map(Dom.line) },
    path: { name: "Path", of: (row) => [...new Set(row.affects.map(folder))] },
  };
  const ORDERS = {
    "": "Newest first", oldest: "Oldest first", title: "By title", topic: "By topic", who: "By author",
  };
  const COLUMNS = "id created type status outcome topic title who agent tags affects supersedes superseded_by path".split(" ");
  const compare = new Intl.Collator("en", { numeric: true }).compare;

  /** The first two folders of a governed path. */
  function folder(path) {
    const parts = path.split("/").filter(Boolean);
    const folders = parts.length > 1 && /\.[a-z0-9]+$|\*/i.test(parts.at(-1)) ? parts.slice(0, -1) : parts;
    return folders.slice(0, 2).join("/");
  }

  /** Whether a record passes what is chosen; `except`: a part that does not count. */
  const passes = (row, except) =>
    Object.entries(PARTS).every(([key, part]) => key === except || !State.now[key] || part.of(row).includes(State.now[key]));

  /** Records of a list in the order that is chosen; they come newest first. */
  function ordered(rows) {
    const { sort } = State.now;
    if (sort === "oldest") return [...rows].reverse();
    return sort ? rows.toSorted((a, b) => compare(Dom.line(a[sort]), Dom.line(b[sort])) || b.t - a.t) : rows;
  }

  /** The heading under which a record stands in an order that is not by time; "" in one that is. */
  const heading = (row) =>
    ({ title: "By title", topic: row.topic || "Without a topic", who: Dom.line(row.who) || "Author not known" })[State.now.sort] || "";

  function values(key, rows) {
    const counts = new Map(State.now[key] ? [[State.now[key], 0]] : []);
    for (const row of rows.filter((each) => App.shown(each, key))) {
      for (const value of PARTS[key].of(row)) if (value) counts.set(value, (counts.get(value) || 0) + 1);
    }
    return [...counts].sort((a, b) => b[1] - a[1] || compare(a[0], b[0]));
  }

  function choice(key, label, options) {
    const option = ([value, text]) => h("option", { value, selected: value === State.now[key] }, text);
    return h("select", { class: "button", "data-facet": key, "aria-label": label, onchange: (event) => State.change({ [key]: event.target.value }) }, options.map(option));
  }

  /** Draw for a list of `rows` whose type has the records `all`. */
  function draw(all, rows) {
    const focused = document.activeElement?.dataset?.facet;
    const parts = Object.entries(PARTS).map(([key, { name }]) => {
      const found = values(key, all);
      const options = found.map(([value, count]) => [value, `${value} (${count.toLocaleString("en")})`]);
      return found.length && choice(key, name, [["", `${name}: all`], ...options]);
    });
    Dom.put($("facets"), parts,
      choice("sort", "Order", Object.entries(ORDERS)),
      h("button", { class: "button", type: "button", disabled: !rows.length, onclick: () => save(rows) }, `CSV of ${rows.length.toLocaleString("en")}`));
    if (focused) $("facets").querySelector(`[data-facet="${focused}"]`)?.focus();
  }

  /** What is chosen, as chips that take it away: [text, change of the state]. */
  const chosen = () => Object.entries(PARTS).filter(([key]) => State.now[key])
    .map(([key, { name }]) => [`${name.toLowerCase()} ${State.now[key]}`, { [key]: "" }]);

  /* A cell that begins like a formula would be one in a spreadsheet. */
  function cell(value) {
    const text = Dom.line([value].flat().join(", "));
    return `"${/^[=+\-@＝＋－＠]/.test(text) ? "'" : ""}${text.replaceAll('"', '""')}"`;
  }
  const said = (row, column) => (column === "created" ? row.t && new Date(row.t).toISOString() : row[column]) || "";
  const table = (rows) => [COLUMNS, ...rows.map((row) => COLUMNS.map((column) => said(row, column)))]
    .map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");

  function save(rows) {
    const blob = new Blob(["\ufeff", table(rows)], { type: "text/csv" }); // without the mark Excel reads no UTF-8
    const link = h("a", { href: URL.createObjectURL(blob), download: `${Data.facts.name || "records"}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  return { KEYS: [...Object.keys(PARTS), "sort"], passes, ordered, heading, draw, chosen };
})();
