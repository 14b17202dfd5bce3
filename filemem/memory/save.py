"""Saving a record: check the fields, draft the record, commit and index it, add advice.

If a field refers to a missing record, nothing is saved. `repo.commit` has the order of the steps of
a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from filemem import secrets
from filemem.chain import DEMOTING, Node
from filemem.errors import BadInput, BrokenStore, Conflict, LooksSecret, NotFound
from filemem.memory import advice, fields
from filemem.memory.catch_up import index_record, note_known_head
from filemem.memory.draft import NO_OUTCOME, Draft, compose_draft
from filemem.memory.draft import NON_RECORD_FIELDS as NON_RECORD_FIELDS
from filemem.memory.draft import build_texts as build_texts
from filemem.memory.draft import resolve_ids as resolve_ids
from filemem.memory.store import Store
from filemem.record import (
    CHECKPOINT,
    DECISION,
    OBSERVATION,
    Record,
    build_topic_key,
    format_time,
    parse_named_edges,
    parse_topic,
    refuse_markup,
    shorten_id,
)
from filemem.repo import commit
from filemem.repo.commit import CommitPlan, Edit, SaveResult
from filemem.repo.journal import write_files as write_files

# Fields about the save of a decision, not its content.
_SAVE_FIELDS = ("id", "path", "created", "supersedes", "agent", "session", "outcomes")
# Fields that an ADR states in its own way.
_ADR_FIELDS = ("id_stated", "title", "text", "decision", "topic", "topic_stated")
_CHAIN_EDGES = frozenset({"supersedes", "synthesizes"})  # fields that name replaced decisions
MAX_REPEATS = 100  # observations with the title of a new one that it is compared with


class WriteResult(NamedTuple):
    """The result of a write."""

    id: str
    type: str
    path: str  # from the top of the work tree
    message: str  # one sentence
    commit: str = ""  # its commit, if it is committed
    pending: str = ""  # why it is not committed yet
    superseded: tuple[str, ...] = ()  # ids of the decisions it replaces
    replaced: tuple[str, ...] = ()  # title, age and reason of each decision it replaces
    similar: tuple[advice.Similar, ...] = ()  # records to link to or reuse
    degraded: str = ""  # why it is not in the index yet
    created: int = 0  # of a new record, epoch milliseconds
    note: str = ""  # further notes for the caller
    would_supersede: tuple[str, ...] = ()  # ids of decisions that it would replace if accepted
    undo: str = ""  # the verb and the id that undo it
    warning: str = ""  # why it may be a mistake
    repeated: bool = False  # it exists already, and nothing was written


def save(store: Store, values: Mapping[str, object]) -> WriteResult:
    """Check, write, commit and index one record.

    Args:
        store: the memory.
        values: fields by the names that callers use.

    Raises:
        BadInput: a field is invalid or missing, or looks like a secret.
        NotFound: an edge refers to nothing.
        Conflict: the topic is forked and no field names the replaced decisions.
        BrokenStore: the store cannot be read.
    """
    kind, valid_fields = fields.validate_fields(values)
    is_secret_allowed = refuse_secrets(valid_fields)
    obstacle = store.find_obstacle()
    if obstacle:
        raise BrokenStore(f"nothing was saved: {obstacle}")
    notes = _complete_fields(store, kind, valid_fields)
    now = store.clock()
    entropy = store.entropy()

    def build_draft(*, use_index: bool) -> Draft:
        return compose_draft(
            kind,
            valid_fields,
            store if use_index or kind != DECISION else store.from_files(),
            now=now,
            entropy=entropy,
            is_secret_allowed=is_secret_allowed,
        )

    def rebuild_draft() -> Draft:
        return build_draft(use_index=False)

    with store.repo.save_lock():
        first_draft = build_draft(use_index=_is_index_current(store))
        repeat = _find_repeat(store, first_draft.record, first_draft.replaced_nodes)
        if repeat:
            return repeat
        if first_draft.record.visibility == "private":
            store.files.hide_folder("private")
        save_result, draft = _write_draft(store, first_draft, rebuild_draft)
    notes += advice.list_hidden_characters(draft.data)
    notes += advice.list_notes(store, draft.record, draft.replaced_nodes, valid_fields)
    says_replaced = not _CHAIN_EDGES.isdisjoint(valid_fields)
    return _build_save_result(store, save_result, draft, notes, says_replaced=says_replaced)


def _is_index_current(store: Store) -> bool:
    """Return whether the index is up to date with the branch; if not, the files are read."""
    return store.index.is_readable and note_known_head(store)


def _write_draft(
    store: Store, first_draft: Draft, rebuild_draft: Callable[[], Draft]
) -> tuple[SaveResult, Draft]:
    """Write a draft, rebuilt each time the branch has moved; return the one that was written."""
    drafts: list[Draft] = []

    def plan_edits() -> tuple[tuple[Edit, ...], str]:
        draft = rebuild_draft() if drafts else first_draft
        drafts.append(draft)
        record = draft.record
        message = format_commit_message(record, record.title, record.agent, draft.replaced_nodes)
        return (Edit(record.path, draft.data, None),), message

    save_result = write_edits(store, first_draft.record.path, first_draft.record.type, plan_edits)
    return save_result, drafts[-1]


def _complete_fields(store: Store, kind: str, valid_fields: dict[str, Any]) -> list[str]:
    """Fill in the fields that a save does not state, and return notes on the others."""
    valid_fields.setdefault("agent", store.config.agent)
    if kind == CHECKPOINT:
        valid_fields.setdefault("branch", store.code.read_branch() or "")
    if kind != DECISION:
        return []
    notes: list[str] = []
    if "affects" in valid_fields:
        paths = dict.fromkeys(store.to_top_path(path) for path in valid_fields["affects"])
        valid_fields["affects"] = tuple(paths)
        notes += store.check_affects(paths)
    text = f"{valid_fields['reasoning']}\n{valid_fields['decision']}"
    edges, unknown_notes = resolve_said_edges(store, text)
    for name, ids in edges.items():
        stated_ids = valid_fields.get(name, ())
        valid_fields[name] = (*stated_ids, *ids)
    return notes + unknown_notes


def _build_save_result(
    store: Store, save_result: SaveResult, draft: Draft, notes: list[str], *, says_replaced: bool
) -> WriteResult:
    """Build the answer to a save; `says_replaced`: the caller named the replaced decisions."""
    record = draft.record
    replaced_nodes = draft.replaced_nodes
    ids = tuple(node.id for node in replaced_nodes)
    message = _format_message(store, record, replaced_nodes)
    result = build_result(store, record, save_result, message, "; ".join(notes))
    result = result._replace(created=record.created or 0)
    if replaced_nodes and record.status in DEMOTING:
        reasons = advice.list_replacement_reasons(store, replaced_nodes)
        undo = f"delete {shorten_id(record.id)}"
        result = result._replace(superseded=ids, replaced=reasons, undo=undo)
    else:
        result = result._replace(would_supersede=ids)
    is_implied = bool(result.superseded) and not says_replaced
    has_time = advice.start_budget()
    hints = advice.advise(store, record, is_implied=is_implied, has_time=has_time)
    return result._replace(similar=hints.similar, warning=hints.warning)


def _format_message(store: Store, record: Record, replaced_nodes: tuple[Node, ...]) -> str:
    message = f"{record.type.capitalize()} saved"
    if record.type == DECISION:
        message += f" on {record.topic}"
    if not replaced_nodes or record.status not in DEMOTING:
        return message
    barred_ids = store.barred_ids
    names: list[str] = []
    for node in replaced_nodes:
        is_barred = node.id in barred_ids
        names.append(shorten_id(node.id) if is_barred else node.label)
    return f"{message}, replacing {' and '.join(names)}"


def resolve_fork(store: Store, topic: str, values: Mapping[str, object]) -> WriteResult:
    """End a fork by a decision that replaces all live ones on a topic.

    Raises NotFound; BadInput: it is not forked; and as for `save`.
    """
    key = build_topic_key(fields.validate_line("topic", topic))
    nodes = store.index.read_nodes_by_field("topic", [key]) if key else []
    topic_nodes = [node for node in nodes if node.key == key]
    if not topic_nodes:
        raise NotFound(f"no topic {topic!r}", advice.build_topic_hint(store, key))
    chain_set = store.index.read_chains(topic_nodes)
    heads = chain_set.graph.get_chain(key).heads
    if len(heads) < 2:
        message = f"topic {topic} is not forked"
        raise BadInput(message, "save a decision on it to go on", field="topic")
    merging_values = dict(values)
    merging_values["type"] = DECISION
    merging_values["topic"] = chain_set.nodes[heads[-1]].topic
    merging_values["synthesizes"] = list(heads)
    return save(store, merging_values)


def _find_repeat(
    store: Store, record: Record, replaced_nodes: tuple[Node, ...]
) -> WriteResult | None:
    """Return the answer to a save of an existing record, None for a new one.

    A repeated call must not replace its own record.
    """
    if record.type == DECISION and len(replaced_nodes) == 1:
        old_node = replaced_nodes[0]
        for before in store.read_records([old_node.path]).values():
            if _is_repeat(record, before):
                since = f" since {format_time(old_node.created)[:10]}" if old_node.created else ""
                message = f"Decision on {record.topic} holds already{since} in these words"
                return _build_unwritten_result(store, before, message)
    if record.type == OBSERVATION:
        nodes = store.index.read_nodes_by_field("name", [record.title.casefold()])
        nodes.sort(key=attrgetter("sort_key"), reverse=True)
        paths = [node.path for node in nodes[:MAX_REPEATS]]
        for before in store.read_records(paths).values():
            if _is_same_memory(record, before):
                return _build_unwritten_result(store, before, "already remembered")
    return None


def _build_unwritten_result(store: Store, before: Record, message: str) -> WriteResult:
    return build_result(
        store,
        before,
        SaveResult(),
        f"{message}; nothing was written",
        created=before.created or 0,
        repeated=True,
    )


def _is_same_memory(record: Record, before: Record) -> bool:
    """Return whether an observation repeats one of the same user, agent and run."""
    return _is_equal_except(record, before, ("id", "path", "created", "session"))


def _is_repeat(record: Record, before: Record) -> bool:
    """Return whether a new decision repeats an older one.

    The text of an ADR is compared loosely: it has status, date and links around it.
    """
    skipped_fields = list(_SAVE_FIELDS)
    if record.outcome == NO_OUTCOME:
        skipped_fields.append("outcome")  # the older one may have one since
    if not before.id_stated:
        if record.title != parse_topic(before.title) or record.text not in before.text:
            return False
        if record.decision not in f"{before.decision}\n{before.text}":
            return False
        skipped_fields += _ADR_FIELDS
    return _is_equal_except(record, before, skipped_fields)


def _is_equal_except(record: Record, before: Record, skipped_fields: Iterable[str]) -> bool:
    """Return whether two records are equal in all fields but some."""
    values = before._asdict()
    return before == record._replace(**{name: values[name] for name in skipped_fields})


def resolve_said_edges(store: Store, text: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Turn references in a text such as `builds_on: NAME` into ids, with notes on unknown ones.

    A whole id is left out: it is read in the text itself.
    """
    ids: dict[str, tuple[str, ...]] = {}
    unknown_notes: list[str] = []
    references = parse_named_edges(text)
    current = store if not references or _is_index_current(store) else store.from_files()
    for name, reference in references:
        try:
            record_id = resolve_ids(current, name, [reference])[0]
        except (BadInput, Conflict, NotFound) as error:
            unknown_notes.append(f"no edge: {error.one_line}")
            continue
        if record_id != reference:
            ids[name] = (*ids.get(name, ()), record_id)
    return ids, unknown_notes


# steps of every write


def refuse_secrets(values: Mapping[str, Any]) -> bool:
    """Refuse fields that look like secrets; return whether the caller allowed one.

    Raises BadInput.
    """
    for name, value in values.items():
        lines = value if isinstance(value, tuple) else (value,)
        hits = secrets.find_secrets("\n".join(str(line) for line in lines))
        if not hits:
            continue
        if values.get("allow_secret"):
            return True
        first = hits[0]
        raise LooksSecret(
            f"{name}, line {first.line}: this looks like a secret ({first.kind}); "
            "nothing was written",
            "leave it out and say where it is kept; if it is no secret, use allow_secret "
            "(--allow-secret)",
            field=name,
        )
    return False


def write_edits(
    store: Store, path: str, kind: str, plan: Callable[[], tuple[tuple[Edit, ...], str]]
) -> SaveResult:
    """Write, change or remove files by a plan, commit and index them.

    Args:
        store: the memory.
        path: the store path of the main file, for the settings that leave some uncommitted.
        kind: the type of its record, for the same.
        plan: returns the edits and the commit message; called again if the branch moves.

    Raises:
        Conflict: a file has other edits, or the repository is busy.
    """
    planned_edits: list[Edit] = []

    def build_plan() -> CommitPlan:
        edits, message = plan()
        planned_edits[:] = edits
        named_edits: list[Edit] = []
        for edit in edits:
            if edit.before is not None:
                refuse_markup(store.to_display_path(edit.path))
            full_path = store.files.to_work_tree_path(edit.path)
            named_edits.append(edit._replace(path=full_path))
        return CommitPlan(tuple(named_edits), message, store.clock())

    leave_reason = store.get_leave_reason(path, kind)
    if leave_reason:
        write_files(store.files, build_plan().edits)
        save_result = SaveResult(uncommitted_reason=leave_reason)
    else:
        save_result = commit.save_files(store.repo, store.files, build_plan)
    troubles = [save_result.trouble]
    for edit in planned_edits:
        trouble = index_record(store, edit.path, edit.data, save_result)
        if trouble not in troubles[1:]:
            troubles.append(trouble)
    return save_result._replace(trouble="; ".join(note for note in troubles if note))


def format_commit_message(
    record: Record, subject: str, agent: str, replaced_nodes: Iterable[Node] = ()
) -> str:
    """Format the commit message of a change: what, who, and which decisions it replaces."""
    kind = record.type
    if kind == DECISION and record.topic:
        kind = f"{kind}({record.topic})"
    trailers = [("Filemem-Id", record.id)]
    trailers += [("Supersedes", node.id) for node in replaced_nodes]
    if agent:
        trailers.append(("Agent", agent))
    return commit.render_message(f"{kind}: {subject}", trailers)


def build_result(
    store: Store,
    record: Record,
    save_result: SaveResult,
    message: str,
    note: str = "",
    **extra_fields: Any,
) -> WriteResult:
    """Build the answer to a write of a record; `extra_fields`: further fields of the answer."""
    notes = (save_result.uncommitted_reason, note)
    return WriteResult(
        id=record.id,
        type=record.type,
        path=store.to_display_path(record.path),
        message=message,
        commit=save_result.commit,
        pending=save_result.pending,
        degraded=save_result.trouble,
        note="; ".join(text for text in notes if text),
        **extra_fields,
    )
