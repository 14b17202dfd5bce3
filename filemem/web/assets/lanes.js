/* Which decisions share a lane, and where each mark and title stands in it. Pure: rows in, places out; nothing is drawn here. */
"use strict";

const Lanes = (() => {
  const ONCE = "topics decided once";
  const OTHERS = "all others";
  const NO_CODE = "no code named";
  const LAST = [ONCE, OTHERS, NO_CODE]; // below all others, in this order
  const BY = { code: "Code", area: "Area", topic: "Topic", who: "Who" };
  const SHARED = 3; // records that make a word of their topics a lane
  const COMMON = new Set("about and are for from how into its not our per the use using via was what when with without".split(" "));
  const WIDEST = 640; // px that a title may ask for: the longest that the server sends
  const LEAST = 128; // px of a title that is cut: twelve characters
  const NAMED = 400; // decisions of a memory up to which every mark has its title
  const MOST = 14; // rows of a lane of a larger one; what does not fit becomes a dot
  const DOTS = 40; // dots in a row; more are a density strip
  const GAP = 15; // px from one mark to the next
  const ARROW = 16; // px more if an arrow joins them

  /** The first two folders of the first governed path. */
  function code(row) {
    const path = row.affects[0];
    if (!path) return NO_CODE;
    const parts = path.split("/").filter(Boolean);
    if (parts.length === 1) return parts[0];
    const folders = /\.[a-z0-9]+$|\*/i.test(parts.at(-1)) ? parts.slice(0, -1) : parts;
    return folders.slice(0, 2).join("/");
  }
  const words = (row) => new Set(row.topic.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter((word) => word.length > 2 && !/^\d+$/.test(word) && !COMMON.has(word)));
  /** The area of a record: where people filed it, else the word of its topic that most records share, else its year.
   *  A word that over half of them have tells nothing. A record without a topic has none of its title's words either. */
  function areas(rows) {
    const count = new Map();
    for (const row of rows) for (const word of words(row)) count.set(word, (count.get(word) || 0) + 1);
    const most = Math.max(SHARED, rows.length / 2);
    const shared = (row) => [...words(row)].filter((word) => count.get(word) >= SHARED && count.get(word) <= most).sort((a, b) => count.get(b) - count.get(a))[0];
    return (row) => Dom.line(row.area) || shared(row) || (row.t ? State.day(row.t).slice(0, 4) : "no date");
  }

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
    const area = areas(rows);
    const keys = {
      code: (row) => code(head(row)),
      area: (row) => area(head(row)),
      topic: (row) => (row.topic && count.get(row.topic) > 1 ? row.topic : ONCE),
      who: (row) => Dom.line(row.who) || "not known",
    };
    const lanes = new Map();
    for (const row of rows) {
      const name = keys[by](row);
      if (!lanes.has(name)) lanes.set(name, []);
      lanes.get(name).push(row);
    }
    const made = [...lanes].map(([name, members]) => ({ name, rows: members }));
    const few = (lane) => lane.rows.length < 3 && !LAST.includes(lane.name);
    const small = made.length > 9 && by !== "topic" ? made.filter(few) : [];
    const large = small.length > 1 ? made.filter((lane) => !few(lane)) : made;
    if (small.length > 1) large.push({ name: OTHERS, rows: small.flatMap((lane) => lane.rows).sort((a, b) => a.t - b.t) });
    const year = (lane) => by === "area" && /^\d{4}$/.test(lane.name);
    const rank = (lane) => (year(lane) ? 0 : LAST.indexOf(lane.name) + 1 || -1);
    return large.sort((a, b) => rank(a) - rank(b) || (year(a) ? b.name - a.name : b.rows.length - a.rows.length) || (a.name < b.name ? -1 : 1));
  }

  /* Words at the beginning of a title that say little: left out before a title is cut, and only then. */
  const FIRST = /^(?:(?:adopt|choose|have|keep|let|make|move to|prefer|put|switch to|use)\s+)?(?:(?:a|an|the)\s+)?/i;

  /** What is shown of a title in so many pixels: all of it, else without its first verb and article, else the beginning of that. */
  function label(title, room) {
    if (Dom.measure(title, room) <= room) return title;
    const rest = title.replace(FIRST, "");
    return Dom.fit(rest.charAt(0).toUpperCase() + rest.slice(1), room);
  }

  /* A line of a lane is the list of what is taken in it: [from, to]. A title stands right of its mark; where it would reach
   * beyond the right end, left of it. */
  const span = (mark) => (mark.left ? [mark.x - mark.need - GAP, mark.x + GAP] : [mark.x - GAP, mark.x + mark.need + 6]);
  const free = (line, [from, to]) => line.every((taken) => taken[1] <= from || taken[0] >= to);

  /** Put a mark into the first line that has room for it; true where there was one, or `lines` may still grow. */
  function put(mark, lines, most, first) {
    const asks = span(mark);
    const apart = [asks[0] - ARROW, asks[1]];
    let line = lines[first] && free(lines[first], apart) ? first : lines.findIndex((each) => free(each, asks));
    if (line < 0 && lines.length < most) line = lines.push([]) - 1;
    if (line < 0) return false;
    lines[line].push(asks);
    mark.line = line;
    return true;
  }

  /** In order of time, each beside what it replaces where it can: how many lines that takes. */
  function inOrder(marks, most) {
    const lines = [];
    const lineOf = new Map();
    for (const mark of marks) {
      const before = mark.row.supersedes.map((id) => lineOf.get(id)).find((line) => line !== undefined);
      if (!put(mark, lines, most, before)) return null;
      lineOf.set(mark.row.id, mark.line);
    }
    return lines;
  }

  /** A lane that is too full: the live and the newest get their whole title, some more a part of it; the rest wait for the dots. */
  function byWeight(marks, most) {
    const lines = [];
    const weight = (mark) => (/holds|part|fork/.test(Data.kind(mark.row)) ? 0 : 1);
    const order = [...marks].sort((a, b) => weight(a) - weight(b) || b.x - a.x);
    for (const mark of order) mark.line = -1;
    let may = 0; // a third of the titles may be cut
    for (const mark of order) if (mark.need >= mark.want && put(mark, lines, most)) may += 1 / 2;
    for (const mark of order) {
      if (mark.line >= 0 || may < 1) continue;
      mark.need = Math.min(mark.need, LEAST);
      if (put(mark, lines, most)) may -= 1;
    }
    return lines;
  }

  /** Places in one lane. `right` is as far as a title may reach; `x` gives a time's place; `most`: lines that it may take.
   *  Returns marks [{row, x, line, room, left}], lines, and dots: marks without a title, or a density strip if there are too many. */
  function pack(rows, x, left, right, most) {
    const marks = [];
    for (const row of rows) {
      const at = x(row.t);
      if (at < left - 1 || at > right - 20) continue;
      const want = Dom.measure(row.title, WIDEST) + 14;
      const sides = [right - at, at - left];
      const turned = want > sides[0] && sides[1] > sides[0];
      marks.push({ row, x: at, want, need: Math.min(want, sides[turned ? 1 : 0]), left: turned, line: 0, room: 0 });
    }
    const lines = inOrder(marks, most) || byWeight(marks, most);
    const titled = marks.filter((mark) => mark.line >= 0).sort((a, b) => a.line - b.line || a.x - b.x);
    titled.forEach((mark, i) => (mark.room = room(mark, titled[i - 1], titled[i + 1], left, right)));
    const dots = marks.filter((mark) => mark.line < 0);
    return { marks: titled, dots, dense: dots.length > DOTS, lines: Math.max(1, lines.length) + (dots.length ? 1 : 0), count: marks.length };
  }

  /** The free room beside a mark, up to what its title asks for. */
  function room(mark, before, after, left, right) {
    const beside = (other) => (other?.line === mark.line ? other : null);
    const [past, next] = [beside(before), beside(after)];
    if (mark.left) return Math.min(mark.want, mark.x - (past ? past.x + (past.left ? 0 : past.room) + GAP : left));
    const end = next ? next.x - (next.left ? next.need : 0) - GAP : right;
    const arrow = next?.row.supersedes.includes(mark.row.id) && end - mark.x - ARROW >= Math.min(mark.want, LEAST) ? ARROW : 0;
    return Math.min(mark.want, end - mark.x - arrow);
  }

  return { BY, NAMED, MOST, group, pack, label, usual, code };
})();
