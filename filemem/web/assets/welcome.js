/* What stands in place of an empty sheet: what this is, how to begin, and what is still to be set up. */
"use strict";

const Welcome = (() => {
  const { h, $ } = Dom;
  const FIRST = 'filemem save --topic database --decision "Use PostgreSQL" --reasoning "Orders need transactions"';
  let todo = null; // what `filemem doctor` would have done; asked for once

  /** A sentence with `commands` between backticks. */
  const words = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

  function card(title, ...children) {
    return h("div", { class: "card" }, h("h3", {}, title), ...children);
  }

  function missing() {
    const list = h("ul", { class: "plain" });
    const show = (lines) => Dom.put(list, (lines.length ? lines : ["Nothing: all is set up."]).map((line) => h("li", {}, words(line))));
    todo ||= Data.ask("todo").then((answer) => answer.todo, (error) => [error.message]);
    show(["…"]);
    todo.then(show);
    return card("Still to set up", list, h("p", { class: "soft" }, words("`filemem doctor` checks this again.")));
  }

  function cards() {
    const writes = Data.facts.can_write;
    return [
      card("Save the first decision", Forms.command(FIRST),
        writes && h("p", {}, h("button", { class: "button main", type: "button", onclick: () => Forms.save() }, "New decision"))),
      card("Bring what you have", h("p", {}, "From another memory, here claude-mem:"), Forms.command("filemem import claude-mem --dry-run"),
        h("p", {}, "Look at a folder of decision records (ADR) where it is:"), Forms.command("filemem --store docs/adr web")),
      missing(),
    ];
  }

  /** Show it where there is nothing else to show; says whether that is so. */
  function draw() {
    const empty = !(State.now.view === "time" ? Data.decisions : Data.rows).length;
    $("welcome").hidden = !empty;
    if (!empty) return false;
    const others = Data.rows.length;
    Dom.put($("welcome"),
      h("h2", { id: "welcome-title" }, others ? "No decision yet" : "Nothing is saved yet"),
      h("p", {}, `This page shows what was decided in ${Data.facts.name || "this project"}, when, and why. Each decision is a Markdown file in its Git repository, written by you or by a coding agent.`),
      others && h("p", {}, `The list has ${others} other ${others === 1 ? "record" : "records"}.`),
      h("div", { class: "cards" }, Data.facts.static ? [] : cards()));
    return true;
  }

  return { draw };
})();
