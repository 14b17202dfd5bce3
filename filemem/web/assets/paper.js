/* What paper and a saved picture say besides the picture: whose memory this is, of which day, and what the marks mean. */
"use strict";

const Paper = (() => {
  const { h, s, $ } = Dom;
  const LINE = 22; // px from one line of the heading of a picture to the next

  const chips = () => [...$("legend").querySelectorAll("[data-kind], [data-kind-of-edge]")];
  const name = () => [Data.facts.name || "Decisions", Data.facts.branch].filter(Boolean).join(" · ");

  /** Which day this is of, how much of the memory, and what it leaves out. */
  function facts() {
    const { q, lane, only, from, to, view } = State.now;
    const [start, end] = Timeline.windowOf().map(State.day);
    return [
      Data.past ? `as of ${State.day(Data.past.when)}` : State.day(Data.facts.now || Date.now()),
      $("legend").querySelector(".sum")?.textContent,
      view === "time" && (from || to) && `from ${start} to ${end}`,
      lane && `only ${lane}`,
      only && `only ${only.split(",").map((kind) => Data.KINDS[kind]).join(", ")}`,
      q && `found by “${q}”`,
    ].filter(Boolean).join(" · ");
  }

  /** The first lines of a saved picture: {picture, height}. */
  function heading(width) {
    const ink = getComputedStyle(document.body).color;
    const text = (x, y, size, weight, words) => s("text", { x, y, fill: ink, "font-size": size, "font-weight": weight }, words);
    const picture = s("g", {}, text(18, 26, 16, 650, name()), text(18, 26 + LINE, 12, 400, facts()));
    let x = 18;
    let y = 26 + 2 * LINE;
    for (const chip of chips()) {
      const words = chip.textContent;
      const wide = Dom.measure(words) + 40;
      if (x > 18 && x + wide > width) {
        x = 18;
        y += LINE;
      }
      const icon = Timeline.dressed(chip.querySelector("svg"));
      icon.setAttribute("x", x);
      icon.setAttribute("y", y - 11);
      picture.append(icon, text(x + 20, y, 12, 400, words));
      x += wide;
    }
    return { picture, height: y + 14 };
  }

  /** The timeline as a table: its head, the axis, stands on every page, and no lane is cut by the end of one. */
  function lanes() {
    document.body.dataset.paper = ""; // as wide as paper, whatever the window is
    const [axis, ...rows] = Timeline.pieces();
    delete document.body.dataset.paper;
    Timeline.layout();
    const row = (picture) => h("tr", {}, h("td", {}, picture));
    return h("table", {}, h("thead", {}, row(axis)), h("tbody", {}, rows.map(row)));
  }

  function draw() {
    if (State.now.view === "list") List.whole();
    const picture = State.now.view === "time" && !State.now.id && Data.decisions.length;
    $("paper").classList.toggle("picture", Boolean(picture));
    Dom.put($("paper"),
      h("h1", { dir: "auto" }, name()),
      h("p", {}, facts()),
      !State.now.id && h("ul", {}, chips().map((chip) => h("li", {}, chip.querySelector("svg").cloneNode(true), ` ${chip.textContent}`))),
      picture && lanes());
  }

  function start() {
    addEventListener("beforeprint", draw);
    addEventListener("afterprint", () => {
      Dom.put($("paper"));
      if (State.now.view === "time") Timeline.layout();
    });
  }

  return { start, heading };
})();
