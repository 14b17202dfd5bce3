"""What a save, an update and a delete do, from checked fields to the answer. The order of a save is `saving`'s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from filemem.chain import DEMOTING
from filemem.documents import Node
from filemem.errors import BadInput, Conflict, NotFound
from filemem.memory import (
    arguments,
    finding,
    following,
    graph,
    hints,
    identities,
    linking,
    meant,
    removed,
    showing,
    tombstones,
    writing,
)
from filemem.memory.moves import source
from filemem.memory.saving import BATCH, COMMIT
from filemem.memory.saving import Saved as Done
from filemem.memory.secrecy import refuse_secrets
from filemem.memory.store import Store
from filemem.memory.values import Saved
from filemem.query.filter import within
from filemem.record import (
    CHECKPOINT,
    DECISION,
    EDGE_KINDS,
    Outcome,
    Record,
    amend,
    format_time,
    parse,
    record_path,
    refuse_unreadable,
    render,
    short_id,
    topic_key,
)
from filemem.record.keys import SECRETS_ALLOWED
from filemem.repo import Message

_OF_THE_SAVE = ("id", "path", "created", "supersedes", "agent", "session", "outcomes")  # not of what is decided


def save(store: Store, fields: Mapping[str, object]) -> Saved:
    """Check, write, commit and index one record.

    Raises:
        BadInput: a field is wrong or missing, or looks like a secret.
        NotFound: an edge points to nothing.
        Conflict: the topic is forked and nothing says which decisions are replaced.
    """
    kind, given = writing.check(fields)
    allowed = refuse_secrets(given)
    given |= {name: linking.ids_of(store, name, given[name]) for name in EDGE_KINDS if given.get(name)}
    if "affects" in given:
        given["affects"] = tuple(dict.fromkeys(map(store.from_top, given["affects"])))
    given.setdefault("agent", store.config.agent)
    if kind == CHECKPOINT:
        given.setdefault("branch", store.code.branch() or "")
    with store.saver.exclusive():
        record, again = store.surely(lambda: _composed(store, kind, given, allowed))
        if again:
            return again
        record = record._replace(path=record_path(record))
        note = "; ".join(filter(None, (linking.dangling(store, record), _outside(record))))
        data = render(record)
        refuse_unreadable(data, record.path)
        message = _message(record, record.title, record.agent, replaced=record.supersedes or ())
        done = store.saver.put(record.path, data, message, policy=_policy(store, kind))
        degraded = showing.saved(store, record.path, data, done.commit)
    told = hints.ungoverned(store, record), hints.unreplaced(store, record), hints.gone_on(store, record)
    more = hints.unseen(store, record, done.pending), hints.unmatched(store, record.affects)
    note = "; ".join(filter(None, (note, *told, *more)))
    demotes = record.status in DEMOTING
    replaced = record.supersedes or ()
    on = f" on {record.topic}" if kind == DECISION else ""
    count = f", replacing {len(replaced)}" if replaced and demotes else ""
    return _answer(
        store,
        record,
        done,
        f"{kind.capitalize()} saved{on}{count}",
        superseded=replaced if demotes else (),
        would_supersede=() if demotes else replaced,
        similar=hints.known(store, record),
        degraded=degraded,
        created=record.created or 0,
        note=note,
    )


def _composed(store: Store, kind: str, given: Mapping[str, Any], allowed: bool) -> tuple[Record, Saved | None]:
    """The record of a save, and the answer where the same holds already."""
    replaced = {"supersedes": linking.replaced(store, given)} if kind == DECISION else {}
    record = writing.compose(kind, {**given, **replaced}, store.clock(), store.entropy())
    record = record._replace(secrets_allowed=allowed)
    return record, _same_again(store, record)


def _outside(record: Record) -> str:
    """Say which paths of `affects` nothing is ever known of, or ""; the record keeps them as they were given."""
    stray = [path for path in record.affects if not within(path)]
    return f"affects {', '.join(stray)}: outside the work tree, so it is never found for a file" if stray else ""


def resolve(store: Store, topic: str, fields: Mapping[str, object]) -> Saved:
    """End a fork by a decision that merges all that hold on a topic.

    Raises:
        NotFound: no such topic; says what was probably meant.
        BadInput: it is not forked, or a field is wrong.
    """
    key = topic_key(arguments.line("topic", topic))
    found = [node for node in store.lookup("topic", [key]) if node.key] if key else []
    if not found:
        raise NotFound(f"no topic {topic!r}", meant.topics(store.nodes(), topic) or "filemem topics lists them")
    resolved, around, _ = graph.neighbourhood(store, found)
    heads = [around[head] for head in resolved.holding(key)]
    if not resolved.chain(key).is_forked:
        told = f"topic {topic} is not forked: {hints.holding(heads, key)}"
        raise BadInput(told, "save a decision on it to go on", field="topic")
    merged = [head.id for head in heads]
    return save(store, {**fields, "type": DECISION, "topic": heads[-1].topic, "synthesizes": merged})


def update(store: Store, reference: str, fields: Mapping[str, object]) -> Saved:
    """Append an outcome, or change keys, heading or text of one record; only the lines that must change do.

    Raises:
        BadInput: nothing to change, or a field that this record's type does not take.
        NotFound: no such record.
        Conflict: the file cannot be amended as it is, or nobody knows here whose its id is.
    """
    given = writing.revised(fields)  # before the record is looked for, as a schema does: one order on every surface
    agent = _actor(store, given.pop("agent", ""))
    node = finding.find(store, reference)
    identities.refuse_contested(store, node)
    record = store.read(node.path, node.birth.name).record
    if record is None:
        raise NotFound(f"{reference}: the file {store.shown(node.path)} is gone", "git log shows what became of it")
    record = record._replace(id=node.id)
    changes, told = writing.amendments(record.type, given, store.clock())
    if refuse_secrets(given):
        changes["keys"] = {**changes.get("keys", {}), "secrets": SECRETS_ALLOWED}
    with store.saver.exclusive(), store.naming(node.path):
        if _says_already(store, node, changes):
            kept = Done(node.path, "", node.birth.commit)
            return _answer(store, node, kept, f"{node.id} says that already ({told}); nothing was written")
        message = _message(record, told, agent)
        done = store.saver.amend(node.path, message, policy=_policy(store, node.type), **changes)
        data = store.bytes_of(node.path)
        degraded = showing.saved(store, node.path, data, "", birth=node.birth)
    now = parse(data, node.path, node.birth.name).record
    note = "; ".join(filter(None, (_outdone(now, changes.get("outcome")), _takes_over(store, node, record, now))))
    return _answer(store, node, done, f"Updated {node.id}: {told}", degraded=degraded, note=note)


def _says_already(store: Store, node: Node, changes: Mapping[str, Any]) -> bool:
    """Whether a record says after some changes what it says now, as a status that is accepted where none is stated,
    and HEAD has it so."""
    data = store.bytes_of(node.path)
    before, after = (parse(each, node.path) for each in (data, amend(data, node.path, **changes)))
    wrong, still = ([problem._replace(line=0) for problem in each.problems] for each in (before, after))
    return before.record == after.record and wrong == still and not store.edited(node.path)


def _outdone(now: Record | None, added: Outcome | None) -> str:
    """That an outcome which was just added does not hold, or ""."""
    if now is None or added is None or now.outcome == added.outcome:
        return ""
    last = now.outcomes[-1]
    return (
        f"the outcome stays {now.outcome}: an entry of {format_time(last.at)[:10]} in its log is ahead of the clock, "
        "and the newest one holds; correct its date in the file"
    )


def _takes_over(store: Store, node: Node, before: Record, now: Record | None) -> str:
    """Which code no decision governs any more, where this one has begun to replace others by its status, or ""."""
    if now is None or now.status not in DEMOTING or before.status in DEMOTING:
        return ""
    return hints.ungoverned(store, now._replace(id=node.id, supersedes=node.supersedes))


def delete(store: Store, reference: str, reason: str, agent: str = "") -> Saved:
    """Remove one record by a commit, which leaves its tombstone: nothing brings it back but `restore`.

    Raises:
        NotFound: no such record.
        Conflict: the file has edits that are not committed, or never was; or it was moved, and that is not; or it
            states no id, and this clone does not know its past.
    """
    told, agent = arguments.line("reason", reason), _actor(store, agent)
    node = finding.find(store, reference)
    record = store.read(node.path, node.birth.name).record
    shown = record._replace(id=node.id) if record else Record(node.id, node.type, title=node.title, topic=node.topic)
    identities.refuse_unknown(store, node)
    (revived, forked), aware = hints.revived(store, node), not following.deepened(store)
    if node.birth.commit and source(store, node.path):
        # Its removal would be of a file that no commit has, and HEAD would keep it under the old name.
        raise Conflict(f"{store.shown(node.path)} was moved, and the move is not committed", "commit the move first")
    with store.saver.exclusive(), store.naming(node.path):
        message = _message(shown, f"delete {short_id(shown.id)}" + (f" ({told})" if told else ""), agent)
        rivals = identities.rivals(store, node)
        mark = "" if rivals else tombstones.path_of(node.id)
        done = store.saver.remove(node.path, message, policy=_policy(store, node.type), tombstone=mark)
        degraded = showing.removed(store, node.path, aware)
    known = done.commit or node.birth.commit or meant.gone(store, node.id)  # at the last, where its return waited
    kept = "Git history keeps it" if known else "it was never committed, so nothing keeps it"
    holds = f". {revived} again" if revived else ""
    named = " and ".join(store.shown(one.path) for one in rivals)
    shared = f"{named} is known by this id now, so nothing hides the file if a merge brings it back" if rivals else ""
    note = "; ".join(filter(None, (forked, shared)))
    return _answer(store, node, done, f"Deleted {node.id}; {kept}{holds}", degraded=degraded, note=note)


def restore(store: Store, reference: str, agent: str = "") -> Saved:
    """Bring a forgotten or deleted record back as it last was, and take its tombstone away.

    Raises:
        NotFound: nothing that was removed goes by that name, or Git does not have it any more.
        Conflict: another file, or a folder, stands in its place.
    """
    named, agent = arguments.line("id", reference).strip(), _actor(store, agent)
    found = removed.find(store, named)
    record, aware = found.record, not following.deepened(store)
    message = _message(record, f"restore {record.title}", agent)
    with store.saver.exclusive():
        done = removed.bring_back(store, found, message)
        degraded = showing.restored(store, found, aware)
    about = record._replace(path=found.path)
    return _answer(store, about, done, f"Restored {record.id}", degraded=degraded)


def _answer(store: Store, about: Node | Record, done: Done, message: str, degraded: str = "", **more: Any) -> Saved:
    """The answer to what was done about a record: `more` are further fields of it."""
    degraded = "; ".join(filter(None, (done.trouble, degraded)))
    return Saved(
        id=about.id,
        type=about.type,
        path=store.shown(about.path),
        message=message,
        commit=done.commit or "",
        pending=done.pending or "",
        degraded=degraded,
        **more,
    )


def _same_again(store: Store, record: Record) -> Saved | None:
    """The answer for a decision that holds already, word for word: a call that is repeated must not replace itself."""
    if record.type != DECISION or len(record.supersedes or ()) != 1:
        return None
    node = finding.find(store, (record.supersedes or ("",))[0])
    before = store.read(node.path, node.birth.name).record
    if before is None or before != record._replace(**{name: getattr(before, name) for name in _OF_THE_SAVE}):
        return None
    holds = f"Decision on {record.topic} holds already in these words"
    if node.birth.commit:
        return _answer(store, node, Done(node.path, "", node.birth.commit), f"{holds}; nothing was written")
    again = store.saver.again(node.path)
    if not again.commit:
        return _answer(store, node, again, holds)
    degraded = showing.saved(store, node.path, store.bytes_of(node.path), again.commit)
    return _answer(store, node, again, f"{holds}, and is committed now", degraded)


def _policy(store: Store, kind: str) -> str:
    """A one-shot command has no later saves to wait for."""
    policy = store.config.policy[kind]
    return COMMIT if policy == BATCH and not store.serving else policy


def _actor(store: Store, agent: object) -> str:
    """Who acts, where it is not the person whose commit it is: as the caller says, else as their settings do."""
    return arguments.line("agent", agent) or store.config.agent


def _message(record: Record, told: str, agent: str, replaced: Iterable[str] = ()) -> Message:
    """The message of a commit that does something with a record: what, who, and which decisions it replaces."""
    scope = f"{record.type}({record.topic})" if record.type == DECISION and record.topic else record.type
    trailers = [("Filemem-Id", record.id), *(("Supersedes", old) for old in replaced)]
    return Message(f"{scope}: {told}", (*trailers, *([("Agent", agent)] if agent else [])))
