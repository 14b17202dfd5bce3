"""Guards of live decisions, matched against the code: for `check --code`, saves and hooks.

Rule: only files that Git tracks are read, up to 1 MiB, never through a link; nothing is run. A
decision that is superseded, withdrawn or not accepted guards nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from filemem.errors import BadInput, BrokenStore, NotFound
from filemem.files import MAX_SIZE, Files, is_listed
from filemem.memory.snapshot import Snapshot, moment, of_work_tree
from filemem.memory.store import NAMED, Store
from filemem.query import among
from filemem.record import Record, cut, format_time, short_id
from filemem.record.breaks import Break, breaks
from filemem.record.guards import Guard
from filemem.record.visibility import audience

GUARD = "guard"  # the code of a break
GUARDS = "guards"  # the key of a header
UNREADABLE = f"bad-{GUARDS}"  # the problem that a header's guards cannot be read
_STATED = re.compile(rb"(?m)^[ \t]*[\"']?guards?[\"']?[ \t]*[:=]")  # in a header of any kind
_BELOW = re.compile(rb"\n(?:---|\+\+\+)")  # where a header ends
_HEADER = ("yaml-", "toml-", "json-", "header-")  # how the codes of an unreadable header begin
_REASON = 160  # characters of the reasoning that a break shows


class Broken(NamedTuple):
    """One place in the code that breaks a guard; the first five fields are those of a Problem."""

    path: str
    line: int
    code: str
    level: str
    message: str
    id: str = ""  # of the decision
    title: str = ""
    reason: str = ""
    by: str = ""
    since: str = ""
    text: str = ""  # what stands on the line
    guard: str = ""  # in words

    @property
    def key(self) -> tuple[str, str, str]:
        """What the same break has in another version of its file."""
        return self.id, self.message, self.text


def check(store: Store, base: str = "") -> tuple[int, list[Broken]]:
    """Return how many files were matched, and where tracked code breaks a guard.

    `base`: report only what the change since that revision brings. Raises NotFound: none such.
    """
    since = moment(store, base, "base").id if base else ""
    snapshot = of_work_tree(store)
    if not any(GUARD.encode() in data for data in snapshot.data.values()):
        return 0, []
    live = [
        record
        for record in snapshot.by_id.values()
        if snapshot.graph.is_head(record.id) and store.reader.sees(audience(record))
    ]
    guarding = _Guarding(store, live, snapshot.dates)
    places = guarding.search(store.code.staged(["."]))
    if since and places:
        places = _brought(store, guarding, since, places)
    return guarding.count, [*_unreadable(snapshot, live), *places]


def _unreadable(snapshot: Snapshot, live: Iterable[Record]) -> Iterator[Broken]:
    """Yield the live decisions with guards that cannot be read: they guard nothing."""
    for record in live:
        lost = not record.guards and _STATED.search(_BELOW.split(snapshot.data[record.path], 1)[0])
        path = snapshot.store.display_path(record.path)
        for problem in snapshot.parsed[record.path].problems:
            if problem.code == UNREADABLE:
                yield Broken(*problem._replace(path=path))
            elif lost and problem.code.startswith(_HEADER):
                message = f"{GUARDS} cannot be read: {problem.message}"
                yield Broken(path, problem.line, UNREADABLE, "error", message)


def _brought(
    store: Store, guarding: _Guarding, since: str, places: Iterable[Broken]
) -> list[Broken]:
    """Return the breaks that the code did not have at a commit, or where it left that commit."""
    base = store.code.parted(since, "HEAD") or since
    before = store.code.listing(base, ".")
    renamed = _renamed(store, base)
    new = []
    for path, group in groupby(places, lambda place: place.path):
        former = renamed.get(path, path)
        data = store.code.blob(before[former], MAX_SIZE) if former in before else None
        earlier = Counter(place.key for place in guarding.match(former, data or b""))
        for place in group:
            earlier[place.key] -= 1
            new += [place] if earlier[place.key] < 0 else []
    return new


def _renamed(store: Store, base: str) -> dict[str, str]:
    """Return what the files of Git's index were called in a commit, if not the same."""
    how = ("--cached", "-M", "--diff-filter=R", "--name-status", "-z", "--no-textconv")
    answer = store.code.git.run("diff", *how, "--no-ext-diff", base, "--")
    _, *names = answer.decode("utf-8", "surrogateescape").split("\0")
    return dict(zip(names[1::3], names[::3], strict=False))


def already(store: Store, path: str) -> str:
    """Return a note where the code breaks a decision's guards now, or they match nothing."""
    record = store.read(store.store_path(path)).record
    if record is None or record.status != "accepted":
        return ""
    guarding = _Guarding(store, [record], {})
    tracked = store.code.staged(["."])
    places = guarding.search(tracked)
    named = ", ".join(f"{place.path}:{place.line}" for place in places[:NAMED])
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    broken = f"the code already breaks its guards: {named}{more}" if places else ""
    return "; ".join(filter(None, (broken, _idle(record, tracked))))


def _idle(record: Record, paths: Collection[str]) -> str:
    """Return a note of the globs of a decision's guards that no file matches, or ""."""
    globs = dict.fromkeys(glob for guard in record.guards for glob in guard.within)
    idle = [glob for glob in globs if not (glob.startswith("!") or _is_met(glob, paths))]
    return f"no file matches {', '.join(idle)} today" if idle else ""


def _is_met(glob: str, paths: Iterable[str]) -> bool:
    return any(among((glob,), path) for path in paths)


def warned(store: Store, path: str, change: Callable[[str], str]) -> list[Broken]:
    """Return the breaks that a change of a file would bring; `change` returns the new text."""
    nodes = store.guarding([path]) if store.index.sound else []
    if not nodes:
        return []
    guarding = _Guarding(store, store.records([node.path for node in nodes]).values(), {})
    data = b""
    with suppress(BadInput, NotFound):  # a new file, or one that is never read
        data = guarding.files.read(path)
    earlier = {place.key for place in guarding.match(path, data)} if data else set()
    after = change(data.decode("utf-8", "replace")).encode()
    return [place for place in guarding.match(path, after) if place.key not in earlier]


class _Rule(NamedTuple):
    """A guard of a decision, and where it looks."""

    record: Record
    guard: Guard
    globs: tuple[str, ...]


class _Guarding:
    """Some decisions, matched against files one by one."""

    def __init__(self, store: Store, records: Iterable[Record], dates: Mapping[str, int]) -> None:
        self.store = store
        self.rules = [
            _Rule(record, guard, guard.globs) for record in records for guard in record.guards
        ]
        self.dates = dates
        self.files = Files(store.code.work_tree, ".")
        self.count = 0  # of files that were matched
        self.makers: dict[str, str] = {}

    def search(self, paths: Iterable[str]) -> list[Broken]:
        """Match files of the work tree, in order of their paths."""
        return [place for path in sorted(paths) for place in self._read(path)]

    def _read(self, path: str) -> Iterable[Broken]:
        """Match one file. Links, folders and what is too large are passed over."""
        rules = self._rules_for(path)
        if not rules:
            return ()
        try:
            data = self.files.read(path)
        except (BadInput, NotFound):
            return ()
        self.count += 1
        return self._match(path, data, rules)

    def match(self, path: str, data: bytes) -> list[Broken]:
        """Match the bytes of a file; a file that is no text breaks nothing."""
        return self._match(path, data, self._rules_for(path))

    def _match(self, path: str, data: bytes, rules: Iterable[_Rule]) -> list[Broken]:
        if b"\0" in data:
            return []
        text = data.decode("utf-8", "replace")
        return [
            self._broken(rule.record, rule.guard, path, place)
            for rule in rules
            for place in breaks(rule.guard, path, text)
        ]

    def _rules_for(self, path: str) -> list[_Rule]:
        """Return the guards that cover a file; the records themselves quote what they forbid."""
        files = self.store.files
        own = self.store.repo is self.store.code and files.holds(path)
        if own and is_listed(files.inside(path)):
            return []
        return [rule for rule in self.rules if among(rule.globs, path)]

    def _broken(self, record: Record, guard: Guard, path: str, place: Break) -> Broken:
        reason = cut(" ".join((record.text or record.decision).split()), _REASON)
        at = self.dates.get(record.path) or record.created
        since = format_time(at)[:10] if at else ""
        by = self._maker(record)
        origin = ", ".join(filter(None, (by, since and f"since {since}")))
        message = f"{record.title} ({short_id(record.id)}) {guard}: {reason}"
        message += f" [{origin}]" if origin else ""
        name = path.encode("utf-8", "backslashreplace").decode()
        facts = (record.id, record.title, reason, by, since, place.text, str(guard))
        return Broken(name, place.line, GUARD, "error", message, *facts)

    def _maker(self, record: Record) -> str:
        """Return who decided: the agent that the record states, else its first commit's author."""
        if record.agent:
            return record.agent
        if record.path not in self.makers:
            named = self.store.files.named(record.path)
            how = ("--format=%an", "--diff-filter=A", "--no-show-signature", "--", named)
            try:
                authors = self.store.repo.git.run("log", *how).decode("utf-8", "replace")
            except BrokenStore:  # before the first commit
                authors = ""
            self.makers[record.path] = authors.strip().rpartition("\n")[2]
        return self.makers[record.path]
