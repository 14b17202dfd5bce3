"""Match the guards of live decisions against the code: for `check --code`, saves and hooks.

Rule: only files that Git tracks are read, up to 1 MiB, never through a link; nothing is run. A
decision that is superseded, withdrawn or not accepted guards nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
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
UNREADABLE = f"bad-{GUARDS}"  # the code of a problem: the guards of a header cannot be read
_GUARDS_KEY = re.compile(rb"(?m)^[ \t]*[\"']?guards?[\"']?[ \t]*[:=]")  # in a header of any kind
_HEADER_END = re.compile(rb"\n(?:---|\+\+\+)")
_HEADER = ("yaml-", "toml-", "json-", "header-")  # prefixes of the codes of an unreadable header
_MAX_REASON = 160  # characters of the reasoning that a violation shows


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
    text: str = ""  # of the line
    guard: str = ""  # in words

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for one violation in two versions of its file."""
        return self.id, self.message, self.text


def check_code(store: Store, base: str = "") -> tuple[int, list[Violation]]:
    """Match tracked code against the guards; return the number of files matched, and violations.

    Args:
        base: Report only violations added since this revision.

    Raises:
        NotFound: No such revision.
    """
    since = ""
    if base:
        since = resolve_moment(store, base, "base").id
    snapshot = read_work_tree(store)
    if not any(GUARD.encode() in data for data in snapshot.data.values()):
        return 0, []
    live_records = []
    for record in snapshot.records_by_id.values():
        is_live = snapshot.graph.is_head(record.id)
        if is_live and store.reader.can_see(get_audience(record)):
            live_records.append(record)
    matcher = _GuardMatcher(store, live_records, snapshot.dates)
    violations = matcher.search(store.code.read_staged(["."]))
    if since and violations:
        violations = _filter_new_violations(store, matcher, since, violations)
    unreadable = list(_iter_unreadable(snapshot, live_records))
    return matcher.count, unreadable + violations


def _iter_unreadable(snapshot: Snapshot, live_records: Iterable[Record]) -> Iterator[Violation]:
    """Yield live decisions with guards that cannot be read, so that they guard nothing."""
    for record in live_records:
        header = _HEADER_END.split(snapshot.data[record.path], 1)[0]
        is_lost = not record.guards and _GUARDS_KEY.search(header)
        path = snapshot.store.to_display_path(record.path)
        for problem in snapshot.parsed_files[record.path].problems:
            if problem.code == UNREADABLE:
                yield Violation(*problem._replace(path=path))
            elif is_lost and problem.code.startswith(_HEADER):
                message = f"{GUARDS} cannot be read: {problem.message}"
                yield Violation(path, problem.line, UNREADABLE, level="error", message=message)


def _filter_new_violations(
    store: Store, matcher: _GuardMatcher, since: str, violations: Iterable[Violation]
) -> list[Violation]:
    """Return the violations that the code did not have where it branched off from a commit."""
    base = store.code.find_merge_base(since, "HEAD") or since
    old_blobs = store.code.list_files(base, ".")
    former_paths = _find_former_paths(store, base)
    new_violations = []
    for path, group in groupby(violations, attrgetter("path")):
        former_path = former_paths.get(path, path)
        data = None
        if former_path in old_blobs:
            data = store.code.read_blob(old_blobs[former_path], MAX_SIZE)
        old_violations = matcher.match(former_path, data or b"")
        old_counts = Counter(violation.key for violation in old_violations)
        for violation in group:
            old_counts[violation.key] -= 1
            if old_counts[violation.key] < 0:
                new_violations.append(violation)
    return new_violations


def _find_former_paths(store: Store, base: str) -> dict[str, str]:
    """Map the files of Git's index that were renamed since a commit to their former paths."""
    options = ("--cached", "-M", "--diff-filter=R", "--name-status", "-z", "--no-textconv")
    output = store.code.git.run("diff", *options, "--no-ext-diff", base, "--")
    # Each rename gives three fields: status, old path, new path.
    fields = output.decode("utf-8", "surrogateescape").split("\0")
    old_paths = fields[1::3]
    new_paths = fields[2::3]
    return dict(zip(new_paths, old_paths, strict=False))


def format_current_violations(store: Store, path: str) -> str:
    """Format a note if the code breaks a decision's guards now, or if they match no file."""
    record = store.read(store.to_store_path(path)).record
    if record is None or record.status != "accepted":
        return ""
    matcher = _GuardMatcher(store, [record], dates={})
    tracked_paths = store.code.read_staged(["."])
    violations = matcher.search(tracked_paths)
    notes = []
    if violations:
        places = [f"{violation.path}:{violation.line}" for violation in violations[:MAX_NAMED]]
        note = f"the code already breaks its guards: {', '.join(places)}"
        if len(violations) > MAX_NAMED:
            note += f" and {len(violations) - MAX_NAMED} more"
        notes.append(note)
    idle_globs = _list_idle_globs(record, tracked_paths)
    if idle_globs:
        notes.append(f"no file matches {', '.join(idle_globs)} today")
    return "; ".join(notes)


def _list_idle_globs(record: Record, paths: Collection[str]) -> list[str]:
    """List the globs of a decision's guards that no file matches."""
    globs: dict[str, None] = {}
    for guard in record.guards:
        globs.update(dict.fromkeys(guard.stated_globs))
    idle_globs = []
    for glob in globs:
        is_exclusion = glob.startswith("!")
        if not is_exclusion and not _has_match(glob, paths):
            idle_globs.append(glob)
    return idle_globs


def _has_match(glob: str, paths: Iterable[str]) -> bool:
    return any(is_included((glob,), path) for path in paths)


def find_new_violations(store: Store, path: str, change: Callable[[str], str]) -> list[Violation]:
    """Find the violations that a change of a file would add; `change` returns the new text."""
    if not store.index.is_readable:
        return []
    nodes = store.list_guarding([path])
    if not nodes:
        return []
    records = store.read_records([node.path for node in nodes])
    matcher = _GuardMatcher(store, records.values(), dates={})
    data = b""
    with suppress(BadInput, NotFound):  # a new file, or one that is never read
        data = matcher.files.read(path)
    old_keys = set()
    if data:
        old_keys = {violation.key for violation in matcher.match(path, data)}
    new_text = change(data.decode("utf-8", "replace"))
    new_violations = matcher.match(path, new_text.encode())
    return [violation for violation in new_violations if violation.key not in old_keys]


class _Rule(NamedTuple):
    """A guard, and the decision that states it."""

    record: Record
    guard: Guard
    globs: tuple[str, ...]  # of the guard, which computes them anew each time


class _GuardMatcher:
    """Matches files against the guards of some decisions."""

    def __init__(self, store: Store, records: Iterable[Record], dates: Mapping[str, int]) -> None:
        self.store = store
        self.dates = dates
        self.files = Files(store.code.work_tree, ".")
        self.count = 0  # of files that were matched
        self.rules: list[_Rule] = []
        self._makers: dict[str, str] = {}  # by path of the record
        for record in records:
            for guard in record.guards:
                self.rules.append(_Rule(record, guard, guard.globs))

    def search(self, paths: Iterable[str]) -> list[Violation]:
        """Match files of the work tree, in order of their paths."""
        violations: list[Violation] = []
        for path in sorted(paths):
            violations += self._match_file(path)
        return violations

    def _match_file(self, path: str) -> list[Violation]:
        """Match one file of the work tree; links, folders and large files have no violations."""
        rules = self._list_rules(path)
        if not rules:
            return []
        try:
            data = self.files.read(path)
        except (BadInput, NotFound):
            return []
        self.count += 1
        return self._match_rules(path, data, rules)

    def match(self, path: str, data: bytes) -> list[Violation]:
        """Match the bytes of a file; a binary file has no violations."""
        rules = self._list_rules(path)
        return self._match_rules(path, data, rules)

    def _match_rules(self, path: str, data: bytes, rules: Iterable[_Rule]) -> list[Violation]:
        if b"\0" in data:
            return []
        text = data.decode("utf-8", "replace")
        violations: list[Violation] = []
        for rule in rules:
            breaks = list_breaks(rule.guard, path, text)
            violations += [self._build_violation(rule, path, place) for place in breaks]
        return violations

    def _list_rules(self, path: str) -> list[_Rule]:
        """List the rules for a file; none for a record, which may quote what it forbids."""
        files = self.store.files
        is_own = self.store.repo is self.store.code and files.is_in_store(path)
        if is_own and is_listed(files.to_store_path(path)):
            return []
        return [rule for rule in self.rules if is_included(rule.globs, path)]

    def _build_violation(self, rule: _Rule, path: str, place: Break) -> Violation:
        record = rule.record
        words = (record.text or record.decision).split()
        reason = shorten_line(" ".join(words), _MAX_REASON)
        maker = self._find_maker(record)
        decided_at = self.dates.get(record.path) or record.created
        since = ""
        if decided_at:
            since = format_time(decided_at)[:10]
        message = f"{record.title} ({shorten_id(record.id)}) {rule.guard}: {reason}"
        message += _format_origin(maker, since)
        return Violation(
            path=path.encode("utf-8", "backslashreplace").decode(),
            line=place.line,
            code=GUARD,
            level="error",
            message=message,
            id=record.id,
            title=record.title,
            reason=reason,
            by=maker,
            since=since,
            text=place.text,
            guard=str(rule.guard),
        )

    def _find_maker(self, record: Record) -> str:
        """Return who decided: the agent that the record states, else its first commit's author."""
        if record.agent:
            return record.agent
        if record.path not in self._makers:
            self._makers[record.path] = self._read_first_author(record.path)
        return self._makers[record.path]

    def _read_first_author(self, path: str) -> str:
        named_path = self.store.files.to_work_tree_path(path)
        options = ("--format=%an", "--diff-filter=A", "--no-show-signature")
        try:
            output = self.store.repo.git.run("log", *options, "--", named_path)
        except BrokenStore:  # before the first commit
            return ""
        authors = output.decode("utf-8", "replace").strip()
        return authors.rpartition("\n")[2]


def _format_origin(maker: str, since: str) -> str:
    """Format who decided and since when, or ""."""
    parts = []
    if maker:
        parts.append(maker)
    if since:
        parts.append(f"since {since}")
    if not parts:
        return ""
    return f" [{', '.join(parts)}]"
