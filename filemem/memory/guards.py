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
from filemem.memory.snapshot import Snapshot, read_work_tree, resolve_moment
from filemem.memory.store import MAX_NAMED, Store
from filemem.query import is_included
from filemem.record import Record, format_time, shorten_id, shorten_line
from filemem.record.breaks import Break, list_breaks
from filemem.record.guards import Guard
from filemem.record.visibility import get_audience

GUARD = "guard"  # the code of a break
GUARDS = "guards"  # the key of a header
UNREADABLE = f"bad-{GUARDS}"  # the problem that a header's guards cannot be read
_GUARDS_KEY = re.compile(rb"(?m)^[ \t]*[\"']?guards?[\"']?[ \t]*[:=]")  # in a header of any kind
_HEADER_END = re.compile(rb"\n(?:---|\+\+\+)")  # where a header ends
_HEADER = ("yaml-", "toml-", "json-", "header-")  # how the codes of an unreadable header begin
_MAX_REASON = 160  # characters of the reasoning that a break shows


class Violation(NamedTuple):
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


def check_code(store: Store, base: str = "") -> tuple[int, list[Violation]]:
    """Return how many files were matched, and where tracked code breaks a guard.

    `base`: report only what the change since that revision brings. Raises NotFound: none such.
    """
    since = resolve_moment(store, base, "base").id if base else ""
    snapshot = read_work_tree(store)
    if not any(GUARD.encode() in data for data in snapshot.data.values()):
        return 0, []
    live_records = [
        record
        for record in snapshot.records_by_id.values()
        if snapshot.graph.is_head(record.id) and store.reader.can_see(get_audience(record))
    ]
    matcher = _GuardMatcher(store, live_records, snapshot.dates)
    places = matcher.search(store.code.read_staged(["."]))
    if since and places:
        places = _filter_new_violations(store, matcher, since, places)
    return matcher.count, [*_iter_unreadable(snapshot, live_records), *places]


def _iter_unreadable(snapshot: Snapshot, live_records: Iterable[Record]) -> Iterator[Violation]:
    """Yield the live decisions with guards that cannot be read: they guard nothing."""
    for record in live_records:
        is_lost = not record.guards and _GUARDS_KEY.search(
            _HEADER_END.split(snapshot.data[record.path], 1)[0]
        )
        path = snapshot.store.to_display_path(record.path)
        for problem in snapshot.parsed_files[record.path].problems:
            if problem.code == UNREADABLE:
                yield Violation(*problem._replace(path=path))
            elif is_lost and problem.code.startswith(_HEADER):
                message = f"{GUARDS} cannot be read: {problem.message}"
                yield Violation(path, problem.line, UNREADABLE, "error", message)


def _filter_new_violations(
    store: Store, matcher: _GuardMatcher, since: str, places: Iterable[Violation]
) -> list[Violation]:
    """Return the breaks that the code did not have at a commit, or where it left that commit."""
    base = store.code.find_merge_base(since, "HEAD") or since
    before = store.code.list_files(base, ".")
    former_paths = _find_former_paths(store, base)
    new_violations = []
    for path, group in groupby(places, lambda place: place.path):
        former_path = former_paths.get(path, path)
        data = (
            store.code.read_blob(before[former_path], MAX_SIZE) if former_path in before else None
        )
        earlier_counts = Counter(place.key for place in matcher.match(former_path, data or b""))
        for place in group:
            earlier_counts[place.key] -= 1
            new_violations += [place] if earlier_counts[place.key] < 0 else []
    return new_violations


def _find_former_paths(store: Store, base: str) -> dict[str, str]:
    """Return what the files of Git's index were called in a commit, if not the same."""
    options = ("--cached", "-M", "--diff-filter=R", "--name-status", "-z", "--no-textconv")
    answer = store.code.git.run("diff", *options, "--no-ext-diff", base, "--")
    _, *names = answer.decode("utf-8", "surrogateescape").split("\0")
    return dict(zip(names[1::3], names[::3], strict=False))


def format_current_violations(store: Store, path: str) -> str:
    """Return a note where the code breaks a decision's guards now, or they match nothing."""
    record = store.read(store.to_store_path(path)).record
    if record is None or record.status != "accepted":
        return ""
    matcher = _GuardMatcher(store, [record], {})
    tracked = store.code.read_staged(["."])
    places = matcher.search(tracked)
    place_names = ", ".join(f"{place.path}:{place.line}" for place in places[:MAX_NAMED])
    rest_note = f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
    violation_note = (
        f"the code already breaks its guards: {place_names}{rest_note}" if places else ""
    )
    return "; ".join(filter(None, (violation_note, _format_idle_globs(record, tracked))))


def _format_idle_globs(record: Record, paths: Collection[str]) -> str:
    """Return a note of the globs of a decision's guards that no file matches, or ""."""
    globs = dict.fromkeys(glob for guard in record.guards for glob in guard.stated_globs)
    idle_globs = [glob for glob in globs if not (glob.startswith("!") or _has_match(glob, paths))]
    return f"no file matches {', '.join(idle_globs)} today" if idle_globs else ""


def _has_match(glob: str, paths: Iterable[str]) -> bool:
    return any(is_included((glob,), path) for path in paths)


def find_new_violations(store: Store, path: str, change: Callable[[str], str]) -> list[Violation]:
    """Return the breaks that a change of a file would bring; `change` returns the new text."""
    nodes = store.list_guarding([path]) if store.index.is_readable else []
    if not nodes:
        return []
    matcher = _GuardMatcher(store, store.read_records([node.path for node in nodes]).values(), {})
    data = b""
    with suppress(BadInput, NotFound):  # a new file, or one that is never read
        data = matcher.files.read(path)
    earlier_keys = {place.key for place in matcher.match(path, data)} if data else set()
    after = change(data.decode("utf-8", "replace")).encode()
    return [place for place in matcher.match(path, after) if place.key not in earlier_keys]


class _Rule(NamedTuple):
    """A guard of a decision, and where it looks."""

    record: Record
    guard: Guard
    globs: tuple[str, ...]


class _GuardMatcher:
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

    def search(self, paths: Iterable[str]) -> list[Violation]:
        """Match files of the work tree, in order of their paths."""
        return [place for path in sorted(paths) for place in self._match_file(path)]

    def _match_file(self, path: str) -> Iterable[Violation]:
        """Match one file. Links, folders and what is too large are passed over."""
        rules = self._list_rules(path)
        if not rules:
            return ()
        try:
            data = self.files.read(path)
        except (BadInput, NotFound):
            return ()
        self.count += 1
        return self._match_rules(path, data, rules)

    def match(self, path: str, data: bytes) -> list[Violation]:
        """Match the bytes of a file; a file that is no text breaks nothing."""
        return self._match_rules(path, data, self._list_rules(path))

    def _match_rules(self, path: str, data: bytes, rules: Iterable[_Rule]) -> list[Violation]:
        if b"\0" in data:
            return []
        text = data.decode("utf-8", "replace")
        return [
            self._build_violation(rule.record, rule.guard, path, place)
            for rule in rules
            for place in list_breaks(rule.guard, path, text)
        ]

    def _list_rules(self, path: str) -> list[_Rule]:
        """Return the guards that cover a file; the records themselves quote what they forbid."""
        files = self.store.files
        is_own = self.store.repo is self.store.code and files.is_in_store(path)
        if is_own and is_listed(files.to_store_path(path)):
            return []
        return [rule for rule in self.rules if is_included(rule.globs, path)]

    def _build_violation(self, record: Record, guard: Guard, path: str, place: Break) -> Violation:
        reason = shorten_line(" ".join((record.text or record.decision).split()), _MAX_REASON)
        decided_at = self.dates.get(record.path) or record.created
        since = format_time(decided_at)[:10] if decided_at else ""
        maker = self._find_maker(record)
        origin = ", ".join(filter(None, (maker, since and f"since {since}")))
        message = f"{record.title} ({shorten_id(record.id)}) {guard}: {reason}"
        message += f" [{origin}]" if origin else ""
        name = path.encode("utf-8", "backslashreplace").decode()
        facts = (record.id, record.title, reason, maker, since, place.text, str(guard))
        return Violation(name, place.line, GUARD, "error", message, *facts)

    def _find_maker(self, record: Record) -> str:
        """Return who decided: the agent that the record states, else its first commit's author."""
        if record.agent:
            return record.agent
        if record.path not in self.makers:
            named_path = self.store.files.to_work_tree_path(record.path)
            options = ("--format=%an", "--diff-filter=A", "--no-show-signature", "--", named_path)
            try:
                authors = self.store.repo.git.run("log", *options).decode("utf-8", "replace")
            except BrokenStore:  # before the first commit
                authors = ""
            self.makers[record.path] = authors.strip().rpartition("\n")[2]
        return self.makers[record.path]
