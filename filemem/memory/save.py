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
from filemem.memory.adr_numbers import find_highest_number
from filemem.memory.catch_up import index_record, note_known_head
from filemem.memory.store import Store, compute_tombstone, format_node
from filemem.record import (
    CHECKPOINT,
    DECISION,
    EDGE_KINDS,
    OBSERVATION,
    OUTCOMES,
    Outcome,
    Record,
    build_id,
    build_record_path,
    build_topic_key,
    derive_id,
    format_time,
    parse_adr_number,
    parse_named_edges,
    parse_topic,
    refuse_markup,
    refuse_unreadable,
    render_adr,
    render_record,
    shorten_id,
    to_datetime,
)
from filemem.repo import commit
from filemem.repo.commit import CommitPlan, Edit, SaveResult
from filemem.repo.journal import write_files as write_files

# Fields that say how a decision was saved, not what was decided.
_SAVE_FIELDS = ("id", "path", "created", "supersedes", "agent", "session", "outcomes")
# Fields that an ADR states in its own way.
_ADR_FIELDS = ("id_stated", "title", "text", "decision", "topic", "topic_stated")
# The field of which a heading is made.
_HEADING_FIELDS = {DECISION: "decision", CHECKPOINT: "summary", OBSERVATION: "text"}
_CHAIN_EDGES = frozenset({"supersedes", "synthesizes"})  # what says what is replaced
MAX_REPEATS = 100  # observations with one title that a new one is compared with
NON_RECORD_FIELDS = (
    "allow_secret",
    "reasoning",
    "summary",
    "reason",
)  # fields that are no key of a record
_NO_OUTCOME = OUTCOMES[0]


class WriteResult(NamedTuple):
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
    replaced_nodes: tuple[Node, ...]
    data: bytes


def save(store: Store, values: Mapping[str, object]) -> WriteResult:
    """Check, write, commit and index one record; `values`: fields by the names that callers use.

    Raises BadInput: a field is invalid or missing, or looks like a secret; NotFound: an edge refers
    to nothing; Conflict: the topic is forked and no field says what is replaced; BrokenStore: the
    store cannot be read.
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
        current = store if use_index or kind != DECISION else store.from_files()
        return compose_draft(
            kind,
            valid_fields,
            current,
            now=now,
            entropy=entropy,
            is_secret_allowed=is_secret_allowed,
        )

    with store.repo.save_lock():
        first_draft = build_draft(use_index=_is_index_current(store))
        repeat = _find_repeat(store, first_draft.record, first_draft.replaced_nodes)
        if repeat:
            return repeat
        if first_draft.record.visibility == "private":
            store.files.hide_folder("private")
        save_result, written_draft = _write_draft(
            store, first_draft, lambda: build_draft(use_index=False)
        )
    notes += advice.list_hidden_characters(written_draft.data)
    notes += advice.list_notes(
        store, written_draft.record, written_draft.replaced_nodes, valid_fields
    )
    says_replaced = not _CHAIN_EDGES.isdisjoint(valid_fields)
    return _build_save_result(store, save_result, written_draft, notes, says_replaced=says_replaced)


def _is_index_current(store: Store) -> bool:
    """True if the index is in step with the branch; else the files are asked."""
    return store.index.is_readable and note_known_head(store)


def _write_draft(
    store: Store, first_draft: Draft, rebuild_draft: Callable[[], Draft]
) -> tuple[SaveResult, Draft]:
    """Write a draft, made anew each time the branch has moved; return the one that was written."""
    drafts: list[Draft] = []

    def plan_edits() -> tuple[tuple[Edit, ...], str]:
        drafts.append(rebuild_draft() if drafts else first_draft)
        record, replaced_nodes, data = drafts[-1]
        message = format_commit_message(record, record.title, record.agent, replaced_nodes)
        return (Edit(record.path, data, None),), message

    save_result = write_edits(store, first_draft.record.path, first_draft.record.type, plan_edits)
    return save_result, drafts[-1]


def _complete_fields(store: Store, kind: str, valid_fields: dict[str, Any]) -> list[str]:
    """Fill in what a save does not state, and return notes on what it states."""
    valid_fields.setdefault("agent", store.config.agent)
    if kind == CHECKPOINT:
        valid_fields.setdefault("branch", store.code.read_branch() or "")
    if kind != DECISION:
        return []
    notes = []
    if "affects" in valid_fields:
        valid_fields["affects"] = tuple(
            dict.fromkeys(map(store.to_top_path, valid_fields["affects"]))
        )
        notes += store.check_affects(valid_fields["affects"])
    edges, unknown_notes = resolve_said_edges(
        store, f"{valid_fields['reasoning']}\n{valid_fields['decision']}"
    )
    for name, ids in edges.items():
        valid_fields[name] = (*valid_fields.get(name, ()), *ids)
    return notes + unknown_notes


def _build_save_result(
    store: Store, save_result: SaveResult, draft: Draft, notes: list[str], *, says_replaced: bool
) -> WriteResult:
    """The answer to a save; `says_replaced`: its maker said what it replaces."""
    record, replaced_nodes, _ = draft
    ids = tuple(node.id for node in replaced_nodes)
    result = build_result(
        store, record, save_result, _format_message(store, record, replaced_nodes), "; ".join(notes)
    )
    result = result._replace(created=record.created or 0)
    if replaced_nodes and record.status in DEMOTING:
        reasons = advice.list_replacement_reasons(store, replaced_nodes)
        undo = f"delete {shorten_id(record.id)}"
        result = result._replace(superseded=ids, replaced=reasons, undo=undo)
    else:
        result = result._replace(would_supersede=ids)
    is_implied = bool(result.superseded) and not says_replaced
    hints = advice.advise(store, record, is_implied=is_implied, has_time=advice.start_budget())
    return result._replace(similar=hints.similar, warning=hints.warning)


def _format_message(store: Store, record: Record, replaced_nodes: tuple[Node, ...]) -> str:
    message = f"{record.type.capitalize()} saved"
    if record.type == DECISION:
        message += f" on {record.topic}"
    if replaced_nodes and record.status in DEMOTING:
        barred_ids = store.barred_ids
        names = [
            shorten_id(node.id) if node.id in barred_ids else format_node(node)
            for node in replaced_nodes
        ]
        message += f", replacing {' and '.join(names)}"
    return message


def resolve_fork(store: Store, topic: str, values: Mapping[str, object]) -> WriteResult:
    """End a fork by a decision that replaces all live ones on a topic.

    Raises NotFound; BadInput: it is not forked; and as for `save`.
    """
    key = build_topic_key(fields.validate_line("topic", topic))
    nodes = (
        [node for node in store.index.read_nodes_by_field("topic", [key]) if node.key == key]
        if key
        else []
    )
    if not nodes:
        raise NotFound(f"no topic {topic!r}", advice.build_topic_hint(store, key))
    chain_set = store.index.read_chains(nodes)
    heads = [chain_set.nodes[head] for head in chain_set.graph.get_chain(key).heads]
    if len(heads) < 2:
        message = f"topic {topic} is not forked"
        raise BadInput(message, "save a decision on it to go on", field="topic")
    ids = [head.id for head in heads]
    return save(store, {**values, "type": DECISION, "topic": heads[-1].topic, "synthesizes": ids})


def _find_repeat(
    store: Store, record: Record, replaced_nodes: tuple[Node, ...]
) -> WriteResult | None:
    """The answer to a save of what is there: a repeated call must not replace itself."""
    if record.type == DECISION and len(replaced_nodes) == 1:
        [old_node] = replaced_nodes
        for before in store.read_records([old_node.path]).values():
            if _is_repeat(record, before):
                since = f" since {format_time(old_node.created)[:10]}" if old_node.created else ""
                message = f"Decision on {record.topic} holds already{since} in these words"
                return _build_unwritten_result(store, before, message)
    if record.type == OBSERVATION:
        nodes = store.index.read_nodes_by_field("name", [record.title.casefold()])
        newest_nodes = sorted(nodes, key=lambda node: node.sort_key, reverse=True)[:MAX_REPEATS]
        for before in store.read_records([node.path for node in newest_nodes]).values():
            if _is_same_memory(record, before):
                return _build_unwritten_result(store, before, "already remembered")
    return None


def _build_unwritten_result(store: Store, before: Record, message: str) -> WriteResult:
    message = f"{message}; nothing was written"
    return build_result(
        store, before, SaveResult(), message, created=before.created or 0, repeated=True
    )


def _is_same_memory(record: Record, before: Record) -> bool:
    """Whether an observation repeats one of the same user, agent and run, but for its session."""
    skipped_fields = ("id", "path", "created", "session")
    return before == record._replace(**{name: getattr(before, name) for name in skipped_fields})


def _is_repeat(record: Record, before: Record) -> bool:
    """Whether a new decision repeats an older one.

    In an ADR the text stands among status, date and links.
    """
    outcome = ("outcome",) if record.outcome == _NO_OUTCOME else ()  # that the older one had since
    skipped_fields = (*_SAVE_FIELDS, *outcome, *(() if before.id_stated else _ADR_FIELDS))
    has_own_text = record.title == parse_topic(before.title) and record.text in before.text
    has_same_words = before.id_stated or (
        has_own_text and record.decision in f"{before.decision}\n{before.text}"
    )
    return has_same_words and before == record._replace(
        **{name: getattr(before, name) for name in skipped_fields}
    )


def compose_draft(
    kind: str,
    valid_fields: Mapping[str, Any],
    store: Store,
    *,
    now: int,
    entropy: bytes,
    is_secret_allowed: bool,
) -> Draft:
    """Draft a record of checked fields; a decision replaces what holds at this moment."""
    valid_fields = {**valid_fields, **_resolve_edges(store, valid_fields)}
    values = {name: value for name, value in valid_fields.items() if name not in NON_RECORD_FIELDS}
    replaced_nodes: tuple[Node, ...] = ()
    if kind == DECISION:
        replaced_nodes = _find_replaced(store, valid_fields)
        values |= _build_decision_values(store, valid_fields, replaced_nodes, now)
    elif kind == OBSERVATION:
        values.setdefault("kind", "discovery")
    values["title"], values["text"] = build_texts(kind, valid_fields)
    record_id = build_id(kind, now, entropy, str(values.get("topic", "")))
    record = Record(
        id=record_id, type=kind, created=now, secrets_allowed=is_secret_allowed, **values
    )
    newest_adr = store.files.find_newest_adr() if kind == DECISION else ""
    if newest_adr:
        record, data = _build_adr(store, record, newest_adr, replaced_nodes)
    else:
        record = record._replace(path=build_record_path(record))
        public_links = ((node.title, node.path) for node in replaced_nodes if not node.audience)
        data = render_record(record, public_links)
    refuse_unreadable(data, record.path)
    return Draft(record, replaced_nodes, data)


def _build_decision_values(
    store: Store, valid_fields: Mapping[str, Any], replaced_nodes: tuple[Node, ...], now: int
) -> dict[str, Any]:
    """The values of a decision that follow from what is there, and from when it is saved."""
    values = {
        "topic": _find_spelling(store, valid_fields["topic"]),
        "topic_stated": True,
        "supersedes": tuple(node.id for node in replaced_nodes),
    }
    if "affects" not in valid_fields and valid_fields.get("status", "accepted") in DEMOTING:
        # A successor governs the files of what it replaces unless it says otherwise.
        records = store.read_records([node.path for node in replaced_nodes]).values()
        values["affects"] = tuple(dict.fromkeys(path for old in records for path in old.affects))
    outcome = valid_fields.get("outcome", _NO_OUTCOME)
    if outcome != _NO_OUTCOME:
        values["outcomes"] = (Outcome(now, outcome, valid_fields.get("reason", "")),)
    return values


def _find_spelling(store: Store, topic: str) -> str:
    """A topic as the oldest decision that states it spells it."""
    stating_nodes = [
        node
        for node in store.index.read_nodes_by_field("topic", [build_topic_key(topic)])
        if node.stated
    ]
    return min(stating_nodes, key=lambda node: node.sort_key).topic if stating_nodes else topic


def build_texts(kind: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """The heading of a record and the text below it, of its fields."""
    heading = values.get("title", "")
    full_text = values.get(_HEADING_FIELDS[kind], "")
    title = heading or fields.build_heading(full_text)
    if kind == DECISION:
        return title, values.get("reasoning", "")
    return title, "" if full_text == title and not heading else full_text


def _build_adr(
    store: Store, record: Record, newest_path: str, replaced_nodes: tuple[Node, ...]
) -> tuple[Record, bytes]:
    """A decision as the next file of an ADR folder.

    Its topic is stated if neither heading nor links show it.
    """
    record = record._replace(topic_stated=not _is_topic_visible(store, record, replaced_nodes))
    links = [(node.title, node.path) for node in replaced_nodes]
    example = store.files.read(newest_path)
    # The day on the writer's wall, as a person would write it; our own stamps are UTC.
    day = to_datetime(record.created or 0).astimezone().date().isoformat()
    number = parse_adr_number(newest_path)
    first_step = 1 if number is None else find_highest_number(store) - number + 1
    for step in count(first_step):
        path, data, stated_id = render_adr(record, newest_path, example, links, day, step)
        # A name of a forgotten record would hide the new one, and two may be saved on one day.
        is_forgotten = compute_tombstone(derive_id(path)) in store.tombstones
        if not is_forgotten and store.files.read_state(path) is None:
            break
    return record._replace(path=path, id=stated_id or derive_id(path)), data


def _is_topic_visible(store: Store, record: Record, replaced_nodes: tuple[Node, ...]) -> bool:
    """Whether the heading of an ADR, or its link to what it replaces, shows its topic."""
    key = build_topic_key(record.topic)
    if key == build_topic_key(record.title):
        return True
    by_heading = replaced_nodes and store.index.read_nodes_by_field("heading", [key])
    return bool(by_heading) and not store.index.read_nodes_by_field("topic", [key])


def _resolve_edges(store: Store, valid_fields: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {
        name: resolve_ids(store, name, valid_fields[name])
        for name in EDGE_KINDS
        if valid_fields.get(name)
    }


def resolve_ids(store: Store, field: str, references: Iterable[str]) -> tuple[str, ...]:
    """Turn the references of an edge into ids. Raises NotFound; BadInput: not a decision."""
    ids = []
    for reference in references:
        try:
            node = store.resolve_name(reference).node
        except NotFound as error:
            raise NotFound(f"{field}: {error.message}", error.hint) from None
        if node.type != DECISION:
            message = (
                f"{field}: {node.id} is {fields.add_article(node.type)}; edges lead to decisions"
            )
            raise BadInput(message, field=field)
        ids.append(node.id)
    return tuple(dict.fromkeys(ids))


def resolve_said_edges(store: Store, text: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Turn what a text names after `builds_on:` and the like into ids, with notes on the others.

    A whole id is left out: it is read in the text itself.
    """
    ids: dict[str, tuple[str, ...]] = {}
    unknown_notes = []
    references = parse_named_edges(text)
    current = store if not references or _is_index_current(store) else store.from_files()
    for name, reference in references:
        try:
            [record_id] = resolve_ids(current, name, [reference])
        except (BadInput, Conflict, NotFound) as error:
            unknown_notes.append(f"no edge: {error.one_line}")
            continue
        if record_id != reference:
            ids[name] = (*ids.get(name, ()), record_id)
    return ids, unknown_notes


def _find_replaced(store: Store, valid_fields: Mapping[str, Any]) -> tuple[Node, ...]:
    """What a new decision replaces: what it states, else the heads of its topic.

    Raises Conflict if that is forked.
    """
    if "supersedes" in valid_fields:
        ids = valid_fields["supersedes"]
        return tuple(store.index.read_nodes_by_field("id", ids)) if ids else ()
    topic = valid_fields["topic"]
    key = build_topic_key(topic)
    if not key:
        message = "topic has no letters or digits"
        raise BadInput(message, "name what the decision is about", field="topic")
    topicless = store.index.read_nodes_by_field("heading", [key])
    chain_set = store.index.read_chains(
        [*store.index.read_nodes_by_field("topic", [key]), *topicless]
    )
    heads = chain_set.graph.list_next_superseded(key) or chain_set.graph.merge_heads(
        node.id for node in topicless
    )
    if len(heads) > 1:
        merged_ids = set(valid_fields.get("synthesizes", ()))
        if not merged_ids:
            raise Conflict(
                f"topic {topic} is forked: {len(heads)} decisions hold at once",
                "read them, then save again and name those that the new decision replaces "
                "in supersedes or synthesizes",
                heads=heads,
            )
        heads = tuple(head for head in heads if head in merged_ids)
    return tuple(chain_set.nodes[head] for head in heads)


# what every write does


def refuse_secrets(values: Mapping[str, Any]) -> bool:
    """Refuse fields that look like secrets; return whether the caller allowed one.

    Raises BadInput.
    """
    for name, value in values.items():
        text = "\n".join(map(str, value)) if isinstance(value, tuple) else str(value)
        hits = secrets.find_secrets(text)
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


def write_edits(
    store: Store, path: str, kind: str, plan: Callable[[], tuple[tuple[Edit, ...], str]]
) -> SaveResult:
    """Write, change or remove files as `plan` says, and show that to searches.

    It is committed if records of this type are. The plan is made again if the branch moved. Raises
    Conflict: a file has other edits, or the repository is busy.
    """
    edits: tuple[Edit, ...] = ()

    def build_plan() -> CommitPlan:
        nonlocal edits
        edits, message = plan()
        for edit in edits:
            if edit.before is not None:
                refuse_markup(store.to_display_path(edit.path))
        named = tuple(
            edit._replace(path=store.files.to_work_tree_path(edit.path)) for edit in edits
        )
        return CommitPlan(named, message, store.clock())

    leave_reason = store.get_leave_reason(path, kind)
    if leave_reason:
        write_files(store.files, build_plan().edits)
        save_result = SaveResult(uncommitted_reason=leave_reason)
    else:
        save_result = commit.save_files(store.repo, store.files, build_plan)
    troubles = dict.fromkeys(
        index_record(store, edit.path, edit.data, save_result) for edit in edits
    )
    return save_result._replace(trouble="; ".join(filter(None, (save_result.trouble, *troubles))))


def format_commit_message(
    record: Record, subject: str, agent: str, replaced_nodes: Iterable[Node] = ()
) -> str:
    """The commit message of a change to a record: what, who, and which decisions it replaces."""
    topic = f"({record.topic})" if record.type == DECISION and record.topic else ""
    trailers = [("Filemem-Id", record.id), *(("Supersedes", old.id) for old in replaced_nodes)]
    if agent:
        trailers.append(("Agent", agent))
    return commit.render_message(f"{record.type}{topic}: {subject}", trailers)


def build_result(
    store: Store,
    record: Record,
    save_result: SaveResult,
    message: str,
    note: str = "",
    **extra_fields: Any,
) -> WriteResult:
    """The answer to a write of a record; `more`: further fields of the answer."""
    return WriteResult(
        id=record.id,
        type=record.type,
        path=store.to_display_path(record.path),
        message=message,
        commit=save_result.commit,
        pending=save_result.pending,
        degraded=save_result.trouble,
        note="; ".join(filter(None, (save_result.uncommitted_reason, note))),
        **extra_fields,
    )
