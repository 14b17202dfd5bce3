/* Which decisions share a lane, and where each mark and title stands in it. Pure: rows in, places out; nothing is drawn here. */
"use strict";

const Lanes = (() => {
  const ONCE = "topics decided once";
  const OTHERS = "all others";
  const BY = { code: "Code", area: "Area", topic: "Topic", who: "Who" };
  const WIDTHS = [200, 160, 128]; // px that a title asks for; the narrowest holds 12 characters
  const TALL = 9; // rows of a lane for which wide titles are given up
  const MOST = 14; // rows of a lane; what does not fit becomes a dot
  const DOTS = 40; // dots in a row; more are a density strip
  const GAP = 15; // px from one mark to the next
  const ARROW = 16; // px more if an arrow joins them

  /** The first two folders of the first governed path. */
  function code(row) {
    const path = row.affects[0];
    if (!path) return "no code named";
    const parts = path.split("/").filter(Boolean);
    if (parts.length === 1) return parts[0];
    const folders = /\.[a-z0-9]+$|\*/i.test(parts.at(-1)) ? parts.slice(0, -1) : parts;
    return folders.slice(0, 2).join("/");
  }
  const area = (row) => Dom.line(row.area) || row.topic.split(/[\s:/_.-]+/)[0].toLowerCase() || "no topic";

  /** Code where at least half of the decisions name what they govern, else the area. */
  const usual = (rows) => (2 * rows.filter((row) => row.affects.length).length >= rows.length ? "code" : "area");

  /** Rows by lane, the fullest first. A chain stands in the lane of its newest member. */
  function group(rows, by) {
    const count = new Map();
    for (const row of rows) count.set(row.topic, (count.get(row.topic) || 0) + 1);
    const newest = new Map();
    const head = (row) => {
      if (newest.has(row.id)) return newest.get(row.id);
      const chain = row.supersedes.length || row.superseded_by.length || row.proposed.length ? Data.chain(row.id) : [row];
      for (const each of chain) newest.set(each.id, chain[0]);
      return newest.get(row.id);
    };
    const keys = {
      code: (row) => code(head(row)),
      area: (row) => area(head(row)),
      topic: (row) => (count.get(row.topic) > 1 ? row.topic : ONCE),
      who: (row) => Dom.line(row.who) || "not known",
    };
    const lanes = new Map();
    for (const row of rows) {
      const name = keys[by](row);
      if (!lanes.has(name)) lanes.set(name, []);
      lanes.get(name).push(row);
    }
    const made = [...lanes].map(([name, members]) => ({ name, rows: members }));
    const small = made.length > 9 && by !== "topic" ? made.filter((lane) => lane.rows.length < 3) : [];
    const large = small.length > 1 ? made.filter((lane) => lane.rows.length >= 3) : made;
    const last = (lane) => (lane.name === ONCE ? 1 : 0);
    large.sort((a, b) => last(a) - last(b) || b.rows.length - a.rows.length || (a.name < b.name ? -1 : 1));
    if (small.length > 1) {
      large.push({ name: OTHERS, rows: small.flatMap((lane) => lane.rows).sort((a, b) => a.t - b.t) });
    }
    return large;
  }

  /** Rows in order of time: the row of what it replaces, else the first free one. */
  function inOrder(marks, width) {
    const ends = [];
    const rowOf = new Map();
    for (const mark of marks) {
      const need = Math.min(mark.want, width);
      const free = (row) => row !== undefined && ends[row] <= mark.x - GAP;
      let row = mark.row.supersedes.map((id) => rowOf.get(id)).find((each) => each !== undefined && ends[each] <= mark.x - GAP - ARROW);
      if (row === undefined) row = ends.findIndex((_, each) => free(each));
      if (row < 0) row = ends.push(0) - 1;
      ends[row] = mark.x + need;
      mark.line = row;
      rowOf.set(mark.row.id, row);
    }
    return ends.length;
  }

  /** A lane that is too full: the live and the newest get a title, the rest wait for the dots. */
  function byWeight(marks, width, most) {
    const taken = Array.from({ length: most }, () => []);
    const weight = (mark) => (/holds|part|fork/.test(Data.kind(mark.row)) ? 0 : 1);
    const order = [...marks].sort((a, b) => weight(a) - weight(b) || b.x - a.x);
    for (const mark of order) {
      const from = mark.x - GAP;
      const to = mark.x + Math.min(mark.want, width) + 6;
      mark.line = taken.findIndex((spans) => spans.every((span) => span[1] <= from || span[0] >= to));
      if (mark.line >= 0) taken[mark.line].push([mark.x - GAP, to]);
    }
    return Math.max(1, ...marks.map((mark) => mark.line + 1));
  }

  /** Places in one lane. `right` is as far as a title may reach; `x` gives a time's place.
   *  Returns marks [{row, x, line, room}], lines, and dots: marks without a title, or a density strip if there are too many. */
  function pack(rows, x, left, right, most = MOST) {
    const marks = [];
    for (const row of rows) {
      const at = x(row.t);
      if (at >= left - 1 && at <= right - 20) marks.push({ row, x: at, want: Dom.measure(row.title, 320) + 14, line: 0, room: 0 });
    }
    let lines = 1;
    for (const width of WIDTHS) {
      lines = inOrder(marks, width);
      if (lines <= TALL) break;
    }
    if (lines > most) lines = byWeight(marks, WIDTHS.at(-1), most);
    const titled = marks.filter((mark) => mark.line >= 0).sort((a, b) => a.line - b.line || a.x - b.x);
    titled.forEach((mark, i) => {
      const next = titled[i + 1];
      const linked = next?.row.supersedes.includes(mark.row.id);
      const free = (next && next.line === mark.line ? next.x - GAP : right) - mark.x;
      const arrow = linked && free - ARROW >= WIDTHS.at(-1) ? ARROW : 0; // a title of few letters is worth more than an arrow
      mark.room = Math.min(mark.want, free - arrow);
    });
    const dots = marks.filter((mark) => mark.line < 0);
    return { marks: titled, dots, dense: dots.length > DOTS, lines: lines + (dots.length ? 1 : 0), count: marks.length };
  }

  return { BY, group, pack, usual, code, area };
})();
