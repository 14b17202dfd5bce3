"""Saving a record: fields, secrets, chain heads, record, bytes, commit, index, advice.

What a field refers to must exist, or nothing is saved. `repo.commit` has the order of the steps of
a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple

from filemem import secrets
from filemem.chain import DEMOTING, Node
from filemem.errors import BadInput, BrokenStore, Conflict, LooksSecret, NotFound
from filemem.memory import advice, fields
from filemem.memory.adr_numbers import highest_number
from filemem.memory.catch_up import knows_head, show
from filemem.memory.store import Store, called, mark_of
from filemem.record import (
    CHECKPOINT,
    DECISION,
    EDGE_KINDS,
    OBSERVATION,
    OUTCOMES,
    Outcome,
    Record,
    adr_number,
    derived_id,
    format_time,
    moment,
    new_id,
    record_path,
    references_said,
    refuse_markup,
    refuse_unreadable,
    render,
    short_id,
    topic_key,
    topic_of_heading,
    write_adr,
)
from filemem.repo import commit
from filemem.repo.commit import Edit, Made, Plan
from filemem.repo.journal import write as write_files

# Fields that say how a decision was saved, not what was decided.
_OF_THE_SAVE = ("id", "path", "created", "supersedes", "agent", "session", "outcomes")
# Fields that an ADR states in its own way.
_OF_AN_ADR = ("id_stated", "title", "text", "decision", "topic", "topic_stated")
# The field of which a heading is made.
_WHOLE = {DECISION: "decision", CHECKPOINT: "summary", OBSERVATION: "text"}
_EDGES_OF_A_CHAIN = frozenset({"supersedes", "synthesizes"})  # what says what is replaced
MOST_REPEATS = 100  # observations with one title that a new one is compared with
SPELT_OUT = ("allow_secret", "reasoning", "summary", "reason")  # fields that are no key of a record
_NO_OUTCOME = OUTCOMES[0]


class Saved(NamedTuple):
    """The result of a write."""

    id: str  # the record; the path is relative to the work tree
    type: str
    path: str
    message: str  # one sentence
    commit: str = ""  # the commit that holds it, where there is one already
    pending: str = ""  # why it is not committed yet, if it is to be
    superseded: tuple[str, ...] = ()  # ids of the decisions it replaces
    replaced: tuple[str, ...] = ()  # title, age and reason of each decision it replaces
    similar: tuple[advice.Similar, ...] = ()  # records to link to or reuse
    degraded: str = ""  # why the index could not take it at once
    created: int = 0  # of a new record, epoch milliseconds
    note: str = ""  # what else its maker should know
    would_supersede: tuple[str, ...] = ()  # ids of those that it would replace, were it accepted
    undo: str = ""  # the verb, and the id, that take it back
    warning: str = ""  # why it may be a mistake
    repeated: bool = False  # it was there already, and nothing was written


class Draft(NamedTuple):
    """A record that is to be written, the decisions that it replaces, and its bytes."""

    record: Record
    replaced: tuple[Node, ...]
    data: bytes


def save(store: Store, values: Mapping[str, object]) -> Saved:
    """Check, write, commit and index one record; `values`: fields by the names that callers use.

    Raises BadInput: a field is invalid or missing, or looks like a secret; NotFound: an edge refers
    to nothing; Conflict: the topic is forked and no field says what is replaced; BrokenStore: the
    store cannot be read.
    """
    kind, checked = fields.check(values)
    allowed = refuse_secrets(checked)
    obstacle = store.obstacle()
    if obstacle:
        raise BrokenStore(f"nothing was saved: {obstacle}")
    notes = _completed(store, kind, checked)
    now = store.clock()
    entropy = store.entropy()

    def draft(*, indexed: bool) -> Draft:
        current = store if indexed or kind != DECISION else store.from_files()
        return compose(kind, checked, current, now=now, entropy=entropy, allowed=allowed)

    with store.repo.saving():
        first = draft(indexed=_is_current(store))
        repeated = _repeated(store, first.record, first.replaced)
        if repeated:
            return repeated
        if first.record.visibility == "private":
            store.files.hide("private")
        made, written = _write(store, first, lambda: draft(indexed=False))
    notes += advice.hidden(written.data)
    notes += advice.notes(store, written.record, written.replaced, checked)
    says_replaced = not _EDGES_OF_A_CHAIN.isdisjoint(checked)
    return _saved(store, made, written, notes, says_replaced=says_replaced)


def _is_current(store: Store) -> bool:
    """True if the index is in step with the branch; else the files are asked."""
    return store.index.sound and knows_head(store)


def _write(store: Store, first: Draft, anew: Callable[[], Draft]) -> tuple[Made, Draft]:
    """Write a draft, made anew each time the branch has moved; return the one that was written."""
    drafts: list[Draft] = []

    def plan() -> tuple[tuple[Edit, ...], str]:
        drafts.append(anew() if drafts else first)
        record, replaced, data = drafts[-1]
        message = message_of(record, record.title, record.agent, replaced)
        return (Edit(record.path, data, None),), message

    made = write(store, first.record.path, first.record.type, plan)
    return made, drafts[-1]


def _completed(store: Store, kind: str, checked: dict[str, Any]) -> list[str]:
    """Fill in what a save does not state, and return notes on what it states."""
    checked.setdefault("agent", store.config.agent)
    if kind == CHECKPOINT:
        checked.setdefault("branch", store.code.branch() or "")
    if kind != DECISION:
        return []
    notes = []
    if "affects" in checked:
        checked["affects"] = tuple(dict.fromkeys(map(store.from_top, checked["affects"])))
        notes += store.unmet(checked["affects"])
    edges, unknown = edges_said(store, f"{checked['reasoning']}\n{checked['decision']}")
    for name, ids in edges.items():
        checked[name] = (*checked.get(name, ()), *ids)
    return notes + unknown


def _saved(
    store: Store, made: Made, draft: Draft, notes: list[str], *, says_replaced: bool
) -> Saved:
    """The answer to a save; `says_replaced`: its maker said what it replaces."""
    record, replaced, _ = draft
    ids = tuple(node.id for node in replaced)
    done = answer(store, record, made, _message(store, record, replaced), "; ".join(notes))
    done = done._replace(created=record.created or 0)
    if replaced and record.status in DEMOTING:
        reasons = advice.reasons(store, replaced)
        undo = f"delete {short_id(record.id)}"
        done = done._replace(superseded=ids, replaced=reasons, undo=undo)
    else:
        done = done._replace(would_supersede=ids)
    implied = bool(done.superseded) and not says_replaced
    hints = advice.advise(store, record, implied=implied, budget=advice.budget())
    return done._replace(similar=hints.similar, warning=hints.warning)


def _message(store: Store, record: Record, replaced: tuple[Node, ...]) -> str:
    message = f"{record.type.capitalize()} saved"
    if record.type == DECISION:
        message += f" on {record.topic}"
    if replaced and record.status in DEMOTING:
        barred = store.barred
        names = [short_id(node.id) if node.id in barred else called(node) for node in replaced]
        message += f", replacing {' and '.join(names)}"
    return message


def resolve(store: Store, topic: str, values: Mapping[str, object]) -> Saved:
    """End a fork by a decision that replaces all live ones on a topic.

    Raises NotFound; BadInput: it is not forked; and as for `save`.
    """
    key = topic_key(fields.line("topic", topic))
    nodes = [node for node in store.index.lookup("topic", [key]) if node.key == key] if key else []
    if not nodes:
        raise NotFound(f"no topic {topic!r}", advice.topic_hint(store, key))
    around = store.index.around(nodes)
    heads = [around.nodes[head] for head in around.graph.chain(key).heads]
    if len(heads) < 2:
        message = f"topic {topic} is not forked"
        raise BadInput(message, "save a decision on it to go on", field="topic")
    ids = [head.id for head in heads]
    return save(store, {**values, "type": DECISION, "topic": heads[-1].topic, "synthesizes": ids})


def _repeated(store: Store, record: Record, replaced: tuple[Node, ...]) -> Saved | None:
    """The answer to a save of what is there: a repeated call must not replace itself."""
    if record.type == DECISION and len(replaced) == 1:
        [old] = replaced
        for before in store.records([old.path]).values():
            if _repeats(record, before):
                since = f" since {format_time(old.created)[:10]}" if old.created else ""
                message = f"Decision on {record.topic} holds already{since} in these words"
                return _unwritten(store, before, message)
    if record.type == OBSERVATION:
        nodes = store.index.lookup("name", [record.title.casefold()])
        newest = sorted(nodes, key=lambda node: node.age, reverse=True)[:MOST_REPEATS]
        for before in store.records([node.path for node in newest]).values():
            if _same_memory(record, before):
                return _unwritten(store, before, "already remembered")
    return None


def _unwritten(store: Store, before: Record, message: str) -> Saved:
    message = f"{message}; nothing was written"
    return answer(store, before, Made(), message, created=before.created or 0, repeated=True)


def _same_memory(record: Record, before: Record) -> bool:
    """Whether an observation repeats one of the same user, agent and run, but for its session."""
    skip = ("id", "path", "created", "session")
    return before == record._replace(**{name: getattr(before, name) for name in skip})


def _repeats(record: Record, before: Record) -> bool:
    """Whether a new decision repeats an older one.

    In an ADR the text stands among status, date and links.
    """
    outcome = ("outcome",) if record.outcome == _NO_OUTCOME else ()  # that the older one had since
    skip = (*_OF_THE_SAVE, *outcome, *(() if before.id_stated else _OF_AN_ADR))
    own = record.title == topic_of_heading(before.title) and record.text in before.text
    worded = before.id_stated or (own and record.decision in f"{before.decision}\n{before.text}")
    return worded and before == record._replace(**{name: getattr(before, name) for name in skip})


def compose(
    kind: str,
    checked: Mapping[str, Any],
    store: Store,
    *,
    now: int,
    entropy: bytes,
    allowed: bool,
) -> Draft:
    """Draft a record of checked fields; a decision replaces what holds at this moment."""
    checked = {**checked, **_edges(store, checked)}
    values = {name: value for name, value in checked.items() if name not in SPELT_OUT}
    replaced: tuple[Node, ...] = ()
    if kind == DECISION:
        replaced = _replaced(store, checked)
        values |= _values_of_decision(store, checked, replaced, now)
    elif kind == OBSERVATION:
        values.setdefault("kind", "discovery")
    values["title"], values["text"] = worded(kind, checked)
    record_id = new_id(kind, now, entropy, str(values.get("topic", "")))
    record = Record(id=record_id, type=kind, created=now, secrets_allowed=allowed, **values)
    newest_adr = store.files.newest_adr() if kind == DECISION else ""
    if newest_adr:
        record, data = _as_adr(store, record, newest_adr, replaced)
    else:
        record = record._replace(path=record_path(record))
        public = ((node.title, node.path) for node in replaced if not node.audience)
        data = render(record, public)
    refuse_unreadable(data, record.path)
    return Draft(record, replaced, data)


def _values_of_decision(
    store: Store, checked: Mapping[str, Any], replaced: tuple[Node, ...], now: int
) -> dict[str, Any]:
    """The values of a decision that follow from what is there, and from when it is saved."""
    values = {
        "topic": _spelling(store, checked["topic"]),
        "topic_stated": True,
        "supersedes": tuple(node.id for node in replaced),
    }
    if "affects" not in checked and checked.get("status", "accepted") in DEMOTING:
        # A successor governs the files of what it replaces unless it says otherwise.
        records = store.records([node.path for node in replaced]).values()
        values["affects"] = tuple(dict.fromkeys(path for old in records for path in old.affects))
    outcome = checked.get("outcome", _NO_OUTCOME)
    if outcome != _NO_OUTCOME:
        values["outcomes"] = (Outcome(now, outcome, checked.get("reason", "")),)
    return values


def _spelling(store: Store, topic: str) -> str:
    """A topic as the oldest decision that states it spells it."""
    stated = [node for node in store.index.lookup("topic", [topic_key(topic)]) if node.stated]
    return min(stated, key=lambda node: node.age).topic if stated else topic


def worded(kind: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """The heading of a record and the text below it, of its fields."""
    heading = values.get("title", "")
    whole = values.get(_WHOLE[kind], "")
    title = heading or fields.heading(whole)
    if kind == DECISION:
        return title, values.get("reasoning", "")
    return title, "" if whole == title and not heading else whole


def _as_adr(
    store: Store, record: Record, newest: str, replaced: tuple[Node, ...]
) -> tuple[Record, bytes]:
    """A decision as the next file of an ADR folder.

    Its topic is stated if neither heading nor links show it.
    """
    record = record._replace(topic_stated=not _shows_topic(store, record, replaced))
    links = [(node.title, node.path) for node in replaced]
    like = store.files.read(newest)
    # The day on the writer's wall, as a person would write it; our own stamps are UTC.
    day = moment(record.created or 0).astimezone().date().isoformat()
    number = adr_number(newest)
    first = 1 if number is None else highest_number(store) - number + 1
    for step in count(first):
        path, data, stated_id = write_adr(record, newest, like, links, day, step)
        # A name of a forgotten record would hide the new one, and two may be saved on one day.
        forgotten = mark_of(derived_id(path)) in store.tombstones
        if not forgotten and store.files.seen(path) is None:
            break
    return record._replace(path=path, id=stated_id or derived_id(path)), data


def _shows_topic(store: Store, record: Record, replaced: tuple[Node, ...]) -> bool:
    """Whether the heading of an ADR, or its link to what it replaces, shows its topic."""
    key = topic_key(record.topic)
    if key == topic_key(record.title):
        return True
    by_heading = replaced and store.index.lookup("heading", [key])
    return bool(by_heading) and not store.index.lookup("topic", [key])


def _edges(store: Store, checked: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: ids_of(store, name, checked[name]) for name in EDGE_KINDS if checked.get(name)}


def ids_of(store: Store, field: str, references: Iterable[str]) -> tuple[str, ...]:
    """Turn the references of an edge into ids. Raises NotFound; BadInput: not a decision."""
    ids = []
    for reference in references:
        try:
            node = store.named(reference).node
        except NotFound as error:
            raise NotFound(f"{field}: {error.message}", error.hint) from None
        if node.type != DECISION:
            message = f"{field}: {node.id} is {fields.article(node.type)}; edges lead to decisions"
            raise BadInput(message, field=field)
        ids.append(node.id)
    return tuple(dict.fromkeys(ids))


def edges_said(store: Store, text: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Turn what a text names after `builds_on:` and the like into ids, with notes on the others.

    A whole id is left out: it is read in the text itself.
    """
    ids: dict[str, tuple[str, ...]] = {}
    unknown = []
    references = references_said(text)
    current = store if not references or _is_current(store) else store.from_files()
    for name, reference in references:
        try:
            [record_id] = ids_of(current, name, [reference])
        except (BadInput, Conflict, NotFound) as error:
            unknown.append(f"no edge: {error.one_line}")
            continue
        if record_id != reference:
            ids[name] = (*ids.get(name, ()), record_id)
    return ids, unknown


def _replaced(store: Store, checked: Mapping[str, Any]) -> tuple[Node, ...]:
    """What a new decision replaces: what it states, else the heads of its topic.

    Raises Conflict if that is forked.
    """
    if "supersedes" in checked:
        ids = checked["supersedes"]
        return tuple(store.index.lookup("id", ids)) if ids else ()
    topic = checked["topic"]
    key = topic_key(topic)
    if not key:
        message = "topic has no letters or digits"
        raise BadInput(message, "name what the decision is about", field="topic")
    loose = store.index.lookup("heading", [key])
    around = store.index.around([*store.index.lookup("topic", [key]), *loose])
    heads = around.graph.next_supersedes(key) or around.graph.ends_of(node.id for node in loose)
    if len(heads) > 1:
        merged = set(checked.get("synthesizes", ()))
        if not merged:
            raise Conflict(
                f"topic {topic} is forked: {len(heads)} decisions hold at once",
                "read them, then save again and name those that the new decision replaces "
                "in supersedes or synthesizes",
                heads=heads,
            )
        heads = tuple(head for head in heads if head in merged)
    return tuple(around.nodes[head] for head in heads)


# what every write does


def refuse_secrets(values: Mapping[str, Any]) -> bool:
    """Refuse fields that look like secrets; return whether the caller allowed one.

    Raises BadInput.
    """
    for name, value in values.items():
        text = "\n".join(map(str, value)) if isinstance(value, tuple) else str(value)
        hits = secrets.find(text)
        if hits and values.get("allow_secret"):
            return True
        if hits:
            line = hits[0].line
            kind = hits[0].kind
            raise LooksSecret(
                f"{name}, line {line}: this looks like a secret ({kind}); nothing was written",
                "leave it out and say where it is kept; if it is no secret, use allow_secret "
                "(--allow-secret)",
                field=name,
            )
    return False


def write(
    store: Store, path: str, kind: str, plan: Callable[[], tuple[tuple[Edit, ...], str]]
) -> Made:
    """Write, change or remove files as `plan` says, and show that to searches.

    It is committed if records of this type are. The plan is made again if the branch moved. Raises
    Conflict: a file has other edits, or the repository is busy.
    """
    edits: tuple[Edit, ...] = ()

    def whole() -> Plan:
        nonlocal edits
        edits, message = plan()
        for edit in edits:
            if edit.before is not None:
                refuse_markup(store.display_path(edit.path))
        named = tuple(edit._replace(path=store.files.named(edit.path)) for edit in edits)
        return Plan(named, message, store.clock())

    left = store.left_to_user(path, kind)
    if left:
        write_files(store.files, whole().edits)
        made = Made(left=left)
    else:
        made = commit.save(store.repo, store.files, whole)
    troubles = dict.fromkeys(show(store, edit.path, edit.data, made) for edit in edits)
    return made._replace(trouble="; ".join(filter(None, (made.trouble, *troubles))))


def message_of(record: Record, subject: str, agent: str, replaced: Iterable[Node] = ()) -> str:
    """The commit message of a change to a record: what, who, and which decisions it replaces."""
    topic = f"({record.topic})" if record.type == DECISION and record.topic else ""
    trailers = [("Filemem-Id", record.id), *(("Supersedes", old.id) for old in replaced)]
    if agent:
        trailers.append(("Agent", agent))
    return commit.message(f"{record.type}{topic}: {subject}", trailers)


def answer(
    store: Store, record: Record, made: Made, message: str, note: str = "", **more: Any
) -> Saved:
    """The answer to a write of a record; `more`: further fields of the answer."""
    return Saved(
        id=record.id,
        type=record.type,
        path=store.display_path(record.path),
        message=message,
        commit=made.commit,
        pending=made.pending,
        degraded=made.trouble,
        note="; ".join(filter(None, (made.left, note))),
        **more,
    )
