/* What has just been saved, by an agent, a command or an editor: at the top of the page, and marked for a minute. */
"use strict";

const Live = (() => {
  const { h, $ } = Dom;
  const MINUTE = 60_000; // ms for which a record counts as just saved
  const SHOWN = 4; // records named at the top; of more, how many
  let came = new Map(); // id -> [when, "saved" or "changed"]
  let prints = null; // id -> what a change of the record changes
  let opened = 0; // when the page was, by the server's clock
  let timer = 0;

  const print = (row) => [row.title, row.status, row.outcome].join("\n");

  /** Compare the records with those of the last time; at the first nothing is new. */
  function take(now = Date.now()) {
    const before = prints;
    opened ||= Data.facts.now || now;
    prints = new Map(Data.rows.filter((row) => !row.elsewhere).map((row) => [row.id, print(row)]));
    if (!before) return;
    for (const [id, text] of prints) {
      const known = before.has(id);
      const young = Data.get(id).t > opened - State.DAY; // others come by a checkout, or as a first index grows
      if (known ? before.get(id) !== text : young) came.set(id, [now, known ? "changed" : "saved"]);
    }
    tick(now);
  }

  /** Leave out what came over a minute ago, and look again when the next one is so old. */
  function tick(now = Date.now()) {
    came = new Map([...came].filter(([id, [when]]) => now - when < MINUTE && Data.get(id)));
    clearTimeout(timer);
    const next = Math.min(...[...came.values()].map(([when]) => when)) + MINUTE - now;
    if (came.size) timer = setTimeout(() => { tick(); App.refresh("fresh"); }, next);
    draw();
  }

  function draw() {
    const rows = [...came.keys()].map(Data.get).sort((a, b) => b.t - a.t);
    $("fresh").hidden = !rows.length;
    const entry = (row) => h("button", { class: "button", type: "button", "data-fresh": row.id, onclick: () => App.open(row.id) },
      Dom.icon(Data.kind(row)), h("span", { dir: "auto" }, row.title), h("small", { dir: "auto" }, [row.topic || row.kind || row.type, row.agent || row.who].filter(Boolean).join(" · ")));
    const changed = rows.length && rows.every((row) => came.get(row.id)[1] === "changed");
    Dom.put($("fresh"), rows.length && h("b", {}, changed ? "Just changed" : "Just saved"), rows.slice(0, SHOWN).map(entry), rows.length > SHOWN && h("span", { class: "soft" }, `and ${rows.length - SHOWN} more`));
  }

  /** Mark them in the list; the timeline does so itself. */
  function paint() {
    for (const node of document.querySelectorAll("#rows [data-id]")) node.classList.toggle("fresh", came.has(node.dataset.id));
  }

  return { take, tick, paint, has: (id) => came.has(id) };
})();
