"""Saving a record: fields, secrets, chain heads, record, bytes, commit, index, advice.

What a field refers to must exist, or nothing is saved. `repo.commit` has the order of the steps of a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple

from filemem import secrets
from filemem.chain import DEMOTING
from filemem.errors import BadInput, BrokenStore, Conflict, LooksSecret, NotFound
from filemem.index import Node
from filemem.memory import advice, fields
from filemem.memory.catch_up import knows_head, show
from filemem.memory.store import Store, called, highest_number, listed, mark_of
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
    hidden_characters,
    moment,
    named,
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

_OF_THE_SAVE = (
    "id",
    "path",
    "created",
    "supersedes",
    "agent",
    "session",
    "outcomes",
)  # not of what is decided
_OF_AN_ADR = (
    "id_stated",
    "title",
    "text",
    "decision",
    "topic",
    "topic_stated",
)  # what it says in its own way
_WHOLE = {
    DECISION: "decision",
    CHECKPOINT: "summary",
    OBSERVATION: "text",
}  # the field of which a heading is made
_EDGES_OF_A_CHAIN = frozenset({"supersedes", "synthesizes"})  # what says what is replaced
MOST_REPEATS = 100  # observations with one title that a new one is compared with
SPELT_OUT = ("allow_secret", "reasoning", "summary", "reason")  # fields that are no key of a record


class Saved(NamedTuple):
    """The result of a write."""

    id: str  # the record; the path is relative to the work tree
    type: str
    path: str
    message: str  # one sentence
    commit: str = ""  # the commit that holds it, where there is one already
    pending: str = (
        ""  # why it is not committed yet; empty where it is, or where it is not ours to commit
    )
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


_Composed = tuple[
    Record, tuple[Node, ...], bytes
]  # what is to be written, what it replaces, and its bytes


def save(store: Store, given: Mapping[str, object]) -> Saved:
    """Check, write, commit and index one record; `given`: the fields by the names that callers use.

    Raises BadInput: a field is invalid or missing, or looks like a secret; NotFound: an edge refers to nothing;
    Conflict: the topic is forked and no field says what is replaced; BrokenStore: the store cannot be read.
    """
    kind, checked = fields.check(given)
    allowed = refuse_secrets(checked)
    if why := store.obstacle():
        raise BrokenStore(f"nothing was saved: {why}")
    notes = _completed(store, kind, checked)
    now, entropy = store.clock(), store.entropy()

    def composed(*, known: bool) -> _Composed:
        current = store if known or kind != DECISION else store.from_files()
        return compose(kind, checked, current, now=now, entropy=entropy, allowed=allowed)

    with store.repo.saving():
        first = composed(known=store.index.sound and knows_head(store))
        repeated = _repeated(store, first[0], first[1])
        if repeated:
            return repeated
        if first[0].visibility == "private":
            store.files.hide("private")
        rounds: list[_Composed] = []

        def plan() -> tuple[tuple[Edit, ...], str]:
            rounds.append(
                composed(known=False) if rounds else first
            )  # a branch that moved: the files are asked
            record, replaced, data = rounds[-1]
            return (Edit(record.path, data, None),), message_of(
                record, record.title, record.agent, replaced
            )

        made = write(store, first[0].path, kind, plan)
    record, replaced, data = rounds[-1]
    notes += _hidden(data)
    if replaced and record.affects and "affects" not in checked:
        notes.append(f"still governs {', '.join(record.affects)}, as what it replaces did")
    if "guards" not in checked and any(node.guards for node in replaced):
        notes.append("the guards of what it replaces end: give those that still hold")
    if "supersedes" in checked and record.status in DEMOTING:
        notes += _beside(store, record, replaced)
    return _saved(
        store, made, record, replaced, notes, named=not _EDGES_OF_A_CHAIN.isdisjoint(checked)
    )


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
    store: Store,
    made: Made,
    record: Record,
    replaced: tuple[Node, ...],
    notes: list[str],
    *,
    named: bool,
) -> Saved:
    """The answer to a save; `named`: its maker said what it replaces."""
    ids = tuple(node.id for node in replaced)
    done = answer(store, record, made, _message(store, record, replaced), "; ".join(notes))
    done = done._replace(created=record.created or 0)
    if replaced and record.status in DEMOTING:
        reasons = advice.reasons(store, replaced)
        undo = f"delete {short_id(record.id)}"
        done = done._replace(superseded=ids, replaced=reasons, undo=undo)
    else:
        done = done._replace(would_supersede=ids)
    implied = bool(done.superseded) and not named
    hints = advice.advise(store, record, implied=implied, budget=advice.budget())
    return done._replace(similar=hints.similar, warning=hints.warning)


def _beside(store: Store, record: Record, replaced: tuple[Node, ...]) -> list[str]:
    """Name what holds on the topic of a new decision beside it; it names others to replace."""
    key = topic_key(record.topic)
    around = store.index.around(store.index.lookup("topic", [key]))
    ended = {record.id, *store.barred, *(node.id for node in replaced)}
    others = [around.nodes[head] for head in around.graph.chain(key).heads if head not in ended]
    return [f"on this topic holds too: {listed(others)}; the topic is forked"] if others else []


def _message(store: Store, record: Record, replaced: tuple[Node, ...]) -> str:
    message = f"{record.type.capitalize()} saved"
    if record.type == DECISION:
        message += f" on {record.topic}"
    if replaced and record.status in DEMOTING:
        barred = store.barred
        names = [short_id(node.id) if node.id in barred else called(node) for node in replaced]
        message += f", replacing {' and '.join(names)}"
    return message


def _hidden(data: bytes) -> list[str]:
    """Name the invisible characters of a file."""
    rows = enumerate(data.decode().splitlines(), 1)
    characters = ((number, hidden_characters(row)) for number, row in rows)
    return [f"line {number} of the file holds {named(some)}" for number, some in characters if some]


def resolve(store: Store, topic: str, given: Mapping[str, object]) -> Saved:
    """End a fork by a decision that replaces all live ones on a topic. Raises NotFound, BadInput: it is not forked."""
    key = topic_key(fields.line("topic", topic))
    found = [node for node in store.index.lookup("topic", [key]) if node.key == key] if key else []
    if not found:
        known = [name for name, _ in store.index.terms("topic")]
        raise NotFound(f"no topic {topic!r}", fields.meant(key, known, "filemem topics lists them"))
    around = store.index.around(found)
    heads = [around.nodes[head] for head in around.graph.chain(key).heads]
    if len(heads) < 2:
        raise BadInput(
            f"topic {topic} is not forked", "save a decision on it to go on", field="topic"
        )
    merged = [head.id for head in heads]
    return save(store, {**given, "type": DECISION, "topic": heads[-1].topic, "synthesizes": merged})


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
    """Whether a new decision repeats an older one; in an ADR the text stands among status, date and links."""
    came = ("outcome",) if record.outcome == OUTCOMES[0] else ()  # of the older one since
    skip = (*_OF_THE_SAVE, *came, *(() if before.id_stated else _OF_AN_ADR))
    own = record.title == topic_of_heading(before.title) and record.text in before.text
    worded = before.id_stated or (own and record.decision in f"{before.decision}\n{before.text}")
    return worded and before == record._replace(**{name: getattr(before, name) for name in skip})


def compose(
    kind: str, given: Mapping[str, Any], store: Store, *, now: int, entropy: bytes, allowed: bool
) -> _Composed:
    """Make a record of checked fields, and its bytes; a decision replaces what holds at this moment."""
    given = {**given, **_edges(store, given)}
    values = {name: value for name, value in given.items() if name not in SPELT_OUT}
    replaced: tuple[Node, ...] = ()
    if kind == DECISION:
        replaced, known = (
            _replaced(store, given),
            store.index.lookup("topic", [topic_key(given["topic"])]),
        )
        stated = [node for node in known if node.stated]
        values["topic"] = (
            min(stated, key=lambda node: node.age).topic if stated else given["topic"]
        )  # one spelling
        values["topic_stated"] = True
        values["supersedes"] = tuple(node.id for node in replaced)
        if "affects" not in given and given.get("status", "accepted") in DEMOTING:
            carried = (
                path
                for old in store.records([node.path for node in replaced]).values()
                for path in old.affects
            )
            values["affects"] = tuple(
                dict.fromkeys(carried)
            )  # a successor governs them too unless it says otherwise
        if values.get("outcome", OUTCOMES[0]) != OUTCOMES[0]:
            values["outcomes"] = (Outcome(now, values["outcome"], given.get("reason", "")),)
    elif kind == OBSERVATION:
        values.setdefault("kind", "discovery")
    values["title"], values["text"] = worded(kind, given)
    record_id = new_id(kind, now, entropy, str(values.get("topic", "")))
    record = Record(id=record_id, type=kind, created=now, secrets_allowed=allowed, **values)
    if kind == DECISION and (newest := store.files.newest_adr()):
        record, data = _as_adr(store, record, newest, replaced)
    else:
        record = record._replace(path=record_path(record))
        data = render(record)
    refuse_unreadable(data, record.path)
    return record, replaced, data


def worded(kind: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """The heading of a record and the text below it, of its fields."""
    stated, whole = given.get("title", ""), given.get(_WHOLE[kind], "")
    title = stated or fields.heading(whole)
    if kind == DECISION:
        return title, given.get("reasoning", "")
    return title, "" if whole == title and not stated else whole


def _as_adr(
    store: Store, record: Record, newest: str, replaced: tuple[Node, ...]
) -> tuple[Record, bytes]:
    """A decision as the next file of an ADR folder; its topic is stated if neither heading nor links show it."""
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


def _edges(store: Store, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: ids_of(store, name, given[name]) for name in EDGE_KINDS if given.get(name)}


def ids_of(store: Store, field: str, references: Iterable[str]) -> tuple[str, ...]:
    """Turn the references of an edge into ids. Raises NotFound; BadInput: not a decision."""
    ids = []
    for reference in references:
        try:
            node = store.named(reference).node
        except NotFound as error:
            raise NotFound(f"{field}: {error.message}", error.hint) from None
        if node.type != DECISION:
            raise BadInput(
                f"{field}: {node.id} is {fields.article(node.type)}; edges lead to decisions",
                field=field,
            )
        ids.append(node.id)
    return tuple(dict.fromkeys(ids))


def edges_said(store: Store, text: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Turn what a text names after `builds_on:` and the like into ids, and say what means no decision.

    A whole id is left out: it is read in the text itself.
    """
    ids: dict[str, tuple[str, ...]] = {}
    unknown = []
    references = references_said(text)
    sound = not references or (store.index.sound and knows_head(store))
    current = store if sound else store.from_files()
    for name, reference in references:
        try:
            [record_id] = ids_of(current, name, [reference])
        except (BadInput, Conflict, NotFound) as error:
            unknown.append(f"no edge: {error.told}")
            continue
        if record_id != reference:
            ids[name] = (*ids.get(name, ()), record_id)
    return ids, unknown


def _replaced(store: Store, given: Mapping[str, Any]) -> tuple[Node, ...]:
    """What a new decision replaces: what it states, else the heads of its topic. Raises Conflict if that is forked."""
    if "supersedes" in given:
        return tuple(store.index.lookup("id", given["supersedes"])) if given["supersedes"] else ()
    key = topic_key(given["topic"])
    if not key:
        raise BadInput(
            "topic has no letters or digits", "name what the decision is about", field="topic"
        )
    loose = store.index.lookup("heading", [key])
    around = store.index.around([*store.index.lookup("topic", [key]), *loose])
    heads = around.graph.next_supersedes(key) or around.graph.ends_of(node.id for node in loose)
    merged = set(given.get("synthesizes", ()))
    if len(heads) > 1 and not merged:
        raise Conflict(
            f"topic {given['topic']} is forked: {len(heads)} decisions hold at once",
            "read them, then save again and name those that the new decision replaces in supersedes or synthesizes",
            heads=heads,
        )
    return tuple(
        around.nodes[head] for head in heads if not merged or len(heads) == 1 or head in merged
    )


# what every write does


def refuse_secrets(fields: Mapping[str, Any]) -> bool:
    """Refuse fields that look like secrets; return whether the caller allowed one. Raises BadInput."""
    for name, value in fields.items():
        found = secrets.find("\n".join(map(str, value)) if isinstance(value, tuple) else str(value))
        if found and fields.get("allow_secret"):
            return True
        if found:
            raise LooksSecret(
                f"{name}, line {found[0].line}: this looks like a secret ({found[0].kind}); nothing was written",
                "leave it out and say where it is kept; if it is no secret, use allow_secret (--allow-secret)",
                field=name,
            )
    return False


def write(
    store: Store, path: str, kind: str, plan: Callable[[], tuple[tuple[Edit, ...], str]]
) -> Made:
    """Write, change or remove files as `plan` says, commit that if their type is committed, and show it to searches.

    The plan is made again if the branch moved. Raises Conflict: a file has other edits, or the repository is busy.
    """
    last: tuple[Edit, ...] = ()

    def whole() -> Plan:
        nonlocal last
        last, message = plan()
        for edit in last:
            if edit.before is not None:
                refuse_markup(store.shown(edit.path))
        return Plan(
            tuple(one._replace(path=store.files.named(one.path)) for one in last),
            message,
            store.clock(),
        )

    if left := store.left_to_user(path, kind):
        write_files(store.files, whole().edits)
        made = Made(left=left)
    else:
        made = commit.save(store.repo, store.files, whole)
    troubles = dict.fromkeys(show(store, one.path, one.data, made) for one in last)
    return made._replace(trouble="; ".join(filter(None, (made.trouble, *troubles))))


def message_of(record: Record, told: str, agent: str, replaced: Iterable[Node] = ()) -> str:
    """The commit message of a change to a record: what, who, and which decisions it replaces."""
    scope = (
        f"{record.type}({record.topic})"
        if record.type == DECISION and record.topic
        else record.type
    )
    trailers = [("Filemem-Id", record.id), *(("Supersedes", old.id) for old in replaced)]
    return commit.message(f"{scope}: {told}", (*trailers, *([("Agent", agent)] if agent else [])))


def answer(
    store: Store, record: Record, made: Made, message: str, note: str = "", **more: Any
) -> Saved:
    """The answer to a write of a record; `more`: further fields of the answer."""
    return Saved(
        id=record.id,
        type=record.type,
        path=store.shown(record.path),
        message=message,
        commit=made.commit,
        pending=made.pending,
        degraded=made.trouble,
        note="; ".join(filter(None, (made.left, note))),
        **more,
    )
