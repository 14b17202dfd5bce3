"""What the answer to a write adds, so that nobody repeats, forks or revives a decision unawares.

Rule: a hint is never worth a failed write. What cannot be asked is not hinted at.
"""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Iterable, Sequence

from filemem.chain import DEMOTING
from filemem.documents import Node
from filemem.errors import BrokenStore
from filemem.files import is_listed
from filemem.memory import graph, home, phrases, searching
from filemem.memory.store import Store
from filemem.memory.values import Similar
from filemem.query.drift import fixed
from filemem.query.filter import affects_match, within
from filemem.record import CHECKPOINT, DECISION, Record, topic_key
from filemem.repo import Repo

SAME_START = 3  # letters that topics share before they are compared
MOST_LOOKED = 5_000  # names among which a match of a glob is looked for: some 20 ms
_HERE = {  # of a decision on the topic itself, by its status
    "accepted": "it holds on this topic too; if this one replaces it, save with supersedes",
    "proposed": "it is proposed on this topic; update its status instead of saving it twice",
    "rejected": "it was rejected on this topic; if that is taken back, say why",
    "deprecated": "it was given up on this topic; if that is taken back, say why",
}
NEAR_TOPIC = 0.85  # of difflib's ratio: `cache key` and `cache keys` are nearer, `auth` and `auth api` are not


def known(store: Store, record: Record) -> tuple[Similar, ...]:
    """Records that say nearly what a record says, and decisions on topics that are spelt nearly like its own."""
    found = (*_similar(store, record), *_near_topics(store, record))
    return tuple({each.id: each for each in found}.values())


def revived(store: Store, node: Node) -> tuple[str, str]:
    """What holds again once a decision is gone, and which topic is forked by that, in words; each empty for none."""
    if node.type != DECISION:
        return "", ""
    before, around, _ = graph.neighbourhood(store, [node])
    others = [one for one in around.values() if one.id != node.id]
    after = graph.resolve(others, unrelated=store.unrelated)
    held = {head for one in others for head in before.heads_of(one.id)}
    again = {head for one in others for head in after.heads_of(one.id)} - held
    back = [around[one] for one in sorted(again) if one in around]
    topics = {one.key: one.topic for one in back if one.key}
    forked = [key for key in topics if after.chain(key).is_forked and not before.chain(key).is_forked]
    told = (f"topic {topics[key]} is forked: {len(after.chain(key).heads)} decisions hold at once" for key in forked)
    ending = f"; {phrases.ending(topics[forked[0]])}" if forked else ""
    named = " and ".join(f"{one.title!r} ({one.id})" for one in back)
    return f"{named} {'holds' if len(back) == 1 else 'hold'}" if back else "", "; ".join(told) + ending


def ungoverned(store: Store, record: Record) -> str:
    """Which paths no decision states any more once this one replaced those that held and did, or ""."""
    if not record.supersedes or record.status not in DEMOTING:
        return ""
    try:
        nodes = {node.id: node for field in ("id", "path") for node in store.lookup(field, record.supersedes)}
        stated = {one: paths for one, node in nodes.items() if (paths := _left_out(store, node, record))}
        resolved = graph.neighbourhood(store, map(nodes.__getitem__, stated))[0] if stated else None
        held = [one for one in stated if resolved and {record.id}.issuperset(resolved.superseded_by(one))]
        others = {path: store.lookup("affects", [path]) for one in held for path in stated[one]}
    except BrokenStore:
        return ""
    known = {record.id, *nodes}
    lost = [path for path in others if not any(node.live and node.id not in known for node in others[path])]
    if not lost:
        return ""
    told = f"no decision governs {', '.join(lost)} any more: what this one replaces did"
    return f"{told}; if this one does, say so in affects"


def _left_out(store: Store, node: Node, record: Record) -> list[str]:
    """The paths that an accepted decision states and another does not."""
    found = store.read(node.path, node.birth.name).record if node.status == "accepted" else None
    return [path for path in found.affects if within(path) and not _covers(record.affects, path)] if found else []


def unmatched(store: Store, affects: Iterable[str]) -> str:
    """Which stated paths and globs match no file of the code, or ""; nothing of code that stands elsewhere."""
    if store.repo is store.code and store.files.store == home.TOP:
        return ""
    try:
        missing = [one for one in affects if within(one) and not _matches(store.code, one)]
    except BrokenStore:
        return ""
    if not missing:
        return ""
    literal = "; only * ? and ** are wildcards" if any(set("[{") & set(one) for one in missing) else ""
    return f"affects {', '.join(missing)}: no file matches that yet{literal}"


def _matches(code: Repo, pattern: str) -> bool:
    """Whether a path or glob matches something in the work tree; True where that takes too long to find out."""
    start = fixed(pattern)
    top = code.work_tree / start
    if not os.path.lexists(top):
        return bool(start) and code.item(start) is not None  # a sparse checkout
    if affects_match(pattern, start):
        return True
    looked = 0
    for at, folders, names in os.walk(top):
        folders[:] = [one for one in folders if one != ".git"]
        below = os.path.relpath(at, code.work_tree)
        if any(affects_match(pattern, f"{below}/{name}") for name in (*folders, *names)):
            return True
        looked += len(folders) + len(names)
        if looked > MOST_LOOKED:
            return True
    return False


def unreplaced(store: Store, record: Record) -> str:
    """Which records on its topic a new decision could not replace, because only the work tree lacks them, or ""."""
    if record.type != DECISION:
        return ""
    folder = posixpath.dirname(record.path)
    try:
        held = store.repo.item(store.files.named(folder))
        names = store.repo.objects.tree(held.oid) if held else {}
        removed = store.saver.overlay() if store.repo.journal.entries() else {}
    except BrokenStore:
        return ""
    paths = [f"{folder}/{name}" for name in map(os.fsdecode, names)]
    lost = [path for path in paths if is_listed(path) and path not in removed and not store.files.exists(path)]
    staged = store.repo.index.entries([store.files.named(path) for path in lost]) if lost else {}
    lost = [path for path in lost if store.files.named(path) in staged]  # `git rm` is the user's word
    if not lost:
        return ""
    where = store.shown(folder)
    told = "1 record is" if len(lost) == 1 else f"{len(lost)} records are"
    brings = f"{store.repo.places.by_hand} restore {shlex.quote(store.files.named(folder))}"
    return f"{told} gone from {where}, though not from HEAD, and so not replaced: {brings}"


def unseen(store: Store, record: Record, waits: str | None) -> str:
    """That what the branch holds was not asked, where HEAD is elsewhere for a while; "" where nothing was missed.

    Args:
        store: the parts.
        record: a decision as it was saved.
        waits: why its commit waits, if it does.
    """
    if not waits or record.type != DECISION or record.supersedes or store.repo.branch():
        return ""
    return f"while {waits}, HEAD is on no branch: if a decision on {record.topic} holds there, save with supersedes"


def gone_on(store: Store, record: Record) -> str:
    """Where the topic of a new decision, which replaces nothing, had gone on under others, or ""."""
    key = topic_key(record.topic) if record.type == DECISION else ""
    if not key or record.supersedes:
        return ""
    try:
        resolved, around, _ = graph.neighbourhood(store, store.lookup("topic", [key]))
    except BrokenStore:
        return ""
    before = [one for one in resolved.chain(key).order if one != record.id]
    held = [around[head] for head in graph.ends(resolved, before) if head != record.id]
    if not held or any(node.key == key for node in held):
        return ""
    told = f"what was decided on {record.topic} went on elsewhere: {holding(held, key)}"
    them = "that" if len(held) == 1 else "them"
    return f"{told}; this one supersedes nothing: if it should, save one that supersedes {them} and this one"


def holding(heads: Sequence[Node], key: str) -> str:
    """What holds on a topic that is not forked; where that is on other topics, on which."""
    if not heads:
        return "nothing holds on it"
    if heads[0].key == key:
        return f"{phrases.called(heads[0].title, heads[0].id)} holds"
    return f"{graph.holding(heads)} in its place"


def _covers(patterns: Iterable[str], path: str) -> bool:
    return any(affects_match(pattern, path) for pattern in patterns)


def _near_topics(store: Store, record: Record) -> tuple[Similar, ...]:
    """Topics that are spelt nearly like the new topic of a decision."""
    key = topic_key(record.topic) if record.type == DECISION else ""
    if not key or record.supersedes:
        return ()
    from difflib import get_close_matches  # noqa: PLC0415 - 3 ms; for a topic that is new

    try:
        topics = [topic for topic, _ in store.index.terms("topic", key[:SAME_START]) if topic != key]
        near = get_close_matches(key, topics, n=2, cutoff=NEAR_TOPIC)
        nodes = [max(found, key=lambda node: node.created) for one in near if (found := store.lookup("topic", [one]))]
    except BrokenStore:  # a hint is not worth a failed save
        return ()
    told = "this topic is new; if {!r} is the same thing, use that name, so that one decision supersedes the other"
    return tuple(Similar(node.id, node.title, node.topic, NEAR_TOPIC, told.format(node.topic)) for node in nodes)


def _similar(store: Store, record: Record) -> tuple[Similar, ...]:
    """What is known already and says nearly the same, except what this record replaces."""
    if record.type == CHECKPOINT:
        return ()
    without = {record.id, *(record.supersedes or ())}
    try:
        near = searching.similar(store, f"{record.title}\n{record.text}", record.type, without)
        key = topic_key(record.topic) if record.type == DECISION else ""
        here = [node for node, _ in near if key and node.key == key]
        resolved = graph.neighbourhood(store, here)[0] if here else None
    except BrokenStore:  # a hint is not worth a failed save
        return ()
    replaced = {node.id for node in here if resolved and resolved.superseded_by(node.id)}
    return tuple(_hint(node, likeness, node in here) for node, likeness in near if node.id not in replaced)


def _hint(node: Node, likeness: float, here: bool) -> Similar:
    """What to do about a record that says nearly the same; `here` where it is on the topic of the one just saved."""
    if node.type != DECISION:
        text = "says nearly the same; update it instead of saving it twice"
    elif here:
        text = _HERE[node.status]
    else:
        text = f"if it is about the same thing, reuse the topic {node.topic!r} or give builds_on"
    return Similar(node.id, node.title, node.topic if node.stated else "", likeness, text)
