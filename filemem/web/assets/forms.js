/* What a person changes: an outcome, a status, a new decision, a record forgotten. The same commits as the command line's;
   a page that is out of date is refused by the server, keeps what was typed, and says so. */
"use strict";

const Forms = (() => {
  const { h, $ } = Dom;
  const WAIT = 350; // ms without a key before the server is asked what is near
  const OUTCOMES = { pending: "Pending", success: "Worked", partial: "Partly", failed: "Failed" };
  const STATUSES = ["proposed", "accepted", "rejected", "deprecated"];
  let counter = 0;

  const quote = (text) => `'${String(text).replace(/'/g, "'\\''")}'`;
  const command = (text) => h("p", { class: "command" }, h("code", {}, text.split(" ").flatMap((word) => [" ", h("span", {}, word)]).slice(1)), Panel.copy(text, "Copy"));

  /** A label and its field. */
  function field(label, node, help) {
    const id = node.id || `field-${++counter}`;
    node.id = id;
    if (help) node.setAttribute("aria-describedby", `${id}-help`);
    return h("p", { class: "field" }, h("label", { for: id }, label), node, help && h("small", { id: `${id}-help` }, help));
  }

  /** Send a form; what the server refuses stands above the buttons, in its words, and what was typed stays. */
  async function send(form, path, body, done) {
    const told = form.querySelector(".told");
    const buttons = form.querySelectorAll("button");
    for (const each of form.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
    buttons.forEach((each) => (each.disabled = true));
    told.textContent = "Saving…";
    told.className = "told";
    try {
      const answer = await Data.post(path, body);
      told.textContent = "";
      form.classList.remove("touched");
      await App.reload();
      App.say([answer.note || "Saved", answer.commit && `commit ${answer.commit.slice(0, 8)}`, answer.warning].filter(Boolean).join(" · "));
      done(answer);
    } catch (error) {
      told.className = "told trouble";
      Dom.put(told, error.message, error.hint && h("span", { class: "hint" }, error.hint));
      if (error.status === 409) told.append(h("br"), h("button", { type: "button", onclick: () => { form.classList.remove("touched"); App.reload(true); } }, "Show the newest version"));
      const wrong = error.field && form.elements[error.field];
      if (wrong) {
        wrong.setAttribute("aria-invalid", "true");
        wrong.focus();
      }
    } finally {
      buttons.forEach((each) => (each.disabled = false));
    }
  }

  /** How it turned out: a choice, a reason, the status. */
  function outcome(row, told) {
    const now = row.outcome || "pending";
    const open = (value) => `filemem update ${row.id} --outcome ${value === "pending" ? "success" : value} --reason ${quote("…")}`;
    if (Data.facts.static || !Data.facts.can_write || row.elsewhere) return Data.past || row.elsewhere ? null : command(open(now));
    const group = `outcome-${++counter}`;
    const choices = Object.entries(OUTCOMES).map(([value, name]) =>
      h("label", {}, h("input", { type: "radio", name: "outcome", value, checked: value === now }), h("span", {}, name)));
    const status = h("select", { name: "status" }, STATUSES.map((each) => h("option", { selected: each === (row.status || "accepted") }, each)));
    const form = h("form", { class: "outcome", "aria-label": "Outcome and status", onsubmit: (event) => {
      event.preventDefault();
      const given = Object.fromEntries(new FormData(form));
      const body = { id: row.id, version: told.version };
      if (given.outcome !== now || given.reason) Object.assign(body, { outcome: given.outcome, reason: given.reason });
      if (given.status !== (row.status || "accepted")) body.status = given.status;
      send(form, "update", body, () => Panel.busy() || Panel.draw());
    } },
      h("fieldset", {}, h("legend", { class: "unseen", id: group }, "Outcome"), h("span", { class: "choices" }, choices)),
      h("div", { class: "more" },
        field("What was seen", h("input", { name: "reason", autocomplete: "off", placeholder: "A sentence: what shows it?" })),
        field("Status", status)),
      h("p", { class: "told", role: "status" }), h("button", { class: "button", type: "submit" }, "Save"));
    form.addEventListener("input", () => form.classList.add("touched"));
    return form;
  }

  /* ---- a window over the page ---- */
  function dialog(title, ...children) {
    const box = $("dialog");
    Dom.put(box, h("button", { class: "close", type: "button", "aria-label": "Close", onclick: () => box.close() }, "×"), h("h2", { id: "dialog-title" }, title), ...children);
    if (!box.open) box.showModal();
    (box.querySelector("[autofocus]") || box.querySelector("input,textarea,button.button"))?.focus();
    return box;
  }

  const lines = (text) => text.split("\n").map((each) => each.trim()).filter(Boolean);

  /** A new decision. What holds near it is shown while it is typed, so that nobody decides otherwise without seeing it. */
  function save({ replaces } = {}) {
    const topics = [...new Set(Data.decisions.map((row) => row.topic).filter(Boolean))].sort();
    const near = h("div", { class: "near", "aria-live": "polite" });
    const chosen = new Set(replaces ? [replaces.id] : []);
    const topic = h("input", { name: "topic", required: true, list: "topics", autocomplete: "off", autofocus: true, value: replaces?.topic });
    const form = h("form", { class: "save", onsubmit: (event) => {
      event.preventDefault();
      const given = Object.fromEntries(new FormData(form));
      const body = { topic: given.topic, decision: given.decision, reasoning: given.reasoning, rejected: lines(given.rejected) };
      if (given.affects.trim()) body.affects = lines(given.affects); // else those of what it replaces
      if (chosen.size) body.supersedes = [...chosen];
      send(form, "save", body, (answer) => {
        $("dialog").close();
        App.open(answer.id, { focus: true });
      });
    } },
      h("datalist", { id: "topics" }, topics.map((each) => h("option", { value: each }))),
      field("Topic", topic, "Decisions on one topic form a chain: the newest replaces the one before."),
      field("Decision", h("textarea", { name: "decision", rows: 3, required: true })),
      near,
      field("Why", h("textarea", { name: "reasoning", rows: 4, required: true })),
      field("Ruled out", h("textarea", { name: "rejected", rows: 2 }), "One alternative a line, with the reason."),
      field("Governs", h("textarea", { name: "affects", rows: 2 }), "Files or folders, one a line."),
      h("p", { class: "told", role: "status" }),
      h("p", { class: "actions" }, h("button", { class: "button main", type: "submit" }, "Save the decision"), h("button", { class: "button", type: "button", onclick: () => $("dialog").close() }, "Cancel")));
    let timer = 0;
    form.addEventListener("input", (event) => {
      if (!/topic|decision/.test(event.target.name)) return;
      clearTimeout(timer);
      timer = setTimeout(() => showNear(form, near, chosen), WAIT);
    });
    dialog("New decision", form);
    if (replaces) showNear(form, near, chosen);
  }

  async function showNear(form, near, chosen) {
    const topic = form.elements.topic.value.trim();
    const decision = form.elements.decision.value.trim();
    const same = Data.decisions.filter((row) => row.topic && row.topic.toLowerCase() === topic.toLowerCase() && row.live);
    let found = [];
    if (topic.length + decision.length > 3) {
      try {
        found = (await Data.ask("near", { topic, decision })).near || [];
      } catch (error) {
        found = [];
        Dom.put(near, h("p", { class: "trouble" }, error.message));
      }
    }
    const rest = [...new Set([...chosen, ...found.map((each) => each.id)])].filter((id) => Data.get(id) && !same.some((row) => row.id === id)).slice(0, 5);
    const line = (row, fixed) => h("li", {}, Dom.icon(Data.kind(row)),
      h("span", { dir: "auto" }, row.title, h("small", {}, `${row.topic} · ${State.day(row.t)}`)),
      fixed ? h("em", {}, "will be replaced") : h("label", {}, h("input", { type: "checkbox", checked: chosen.has(row.id), onchange: (event) => chosen[event.target.checked ? "add" : "delete"](row.id) }), "replaces"));
    Dom.put(near,
      same.length && h("h3", {}, "Holds on this topic"), same.length && h("ul", {}, same.map((row) => line(row, true))),
      rest.length && h("h3", {}, "Holds near it"), rest.length && h("ul", {}, rest.map((id) => line(Data.get(id), false))));
  }

  function forget(row, told) {
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      send(form, "forget", { id: row.id, version: told.version, reason: form.elements.reason.value }, () => {
        $("dialog").close();
        App.open("");
      });
    } },
      h("p", { dir: "auto" }, row.title),
      h("p", { class: "soft" }, "A commit removes the file. History keeps it, and filemem restore brings it back."),
      field("Reason", h("input", { name: "reason", autocomplete: "off", autofocus: true })),
      h("p", { class: "told", role: "status" }),
      h("p", { class: "actions" }, h("button", { class: "button danger", type: "submit" }, "Forget the record"), h("button", { class: "button", type: "button", onclick: () => $("dialog").close() }, "Cancel")));
    dialog("Forget this record?", form);
  }

  /** What a session would be told at its start, for this branch or for some paths. */
  function brief() {
    const out = h("pre", { tabindex: 0, class: "brief", "aria-live": "polite" }, "…");
    const cost = h("span", { class: "soft" });
    const form = h("form", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        const answer = await Data.ask("brief", { paths: form.elements.paths.value.split(/[\s,]+/).filter(Boolean).join(",") });
        out.textContent = answer.text || "Nothing: no decision governs what this branch changes.";
        cost.textContent = answer.tokens ? `about ${answer.tokens} tokens` : "";
      } catch (error) {
        out.textContent = `${error.message} ${error.hint || ""}`;
      }
    } },
      field("Paths", h("input", { name: "paths", autocomplete: "off", autofocus: true, placeholder: "empty: what this branch changes" })),
      h("p", { class: "actions" }, h("button", { class: "button", type: "submit" }, "Show"), cost), out);
    dialog("Brief for a session", h("p", { class: "soft" }, "What an agent is shown when it starts to work here."), form);
    form.requestSubmit();
  }

  return { outcome, save, forget, brief, dialog, command };
})();
