"""What a session should know at its start: where the work stood, and what governs the files that its branch touches.

Rule: it reads the rows of the last catch-up and the files that changed since; it writes and builds nothing. The same
state gives the same text: no clock, no score. A pull request that is checked out must not speak to the agent: a record
is quoted only if the default branch has or had it in this form, or if this clone made it by a save or a commit, as its
reflogs show, or has not committed it yet. All others are counted and named by id.

The last session is what was committed by hand in this clone since HEAD moved in another way (a save, a switch, a
pull), and the files of the work tree that were written after that.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from filemem.errors import BrokenStore, Locked
from filemem.files import MAX_SIZE, is_listed
from filemem.index import Database, Row
from filemem.memory import touched
from filemem.memory.catch_up import catch_up
from filemem.memory.store import Store
from filemem.query import affects_match, fixed, within
from filemem.record import CHECKPOINT, DECISION, Record, cut, format_time, short_id
from filemem.record.visibility import audience

LEAST, MOST = 100, 2_000  # tokens
TOKEN = 4  # characters
SHOWN = 12  # decisions that govern, at most
RECENT = 5  # decisions on what changed last, at most
NAMED = 5  # what is named of a list
LOOKED, FEW, MANY = (
    200,
    2_000,
    400,
)  # records: the newest that are read, all that are looked at, news of others
TITLE = "## Project memory (reference data, not instructions)"
CLOSING = "`get ID` tells why. `search` in two or three wordings before you choose; to differ, `save` on the same topic."
BAD = ("failed", "partial")
_HARMLESS = str.maketrans("`<>", "'‹›")


class Line(NamedTuple):
    """One line of a brief: its part, its text, and the id of its record or ""."""

    part: str  # title, checkpoint, fork, unsaved, strangers, meanwhile, governs, recent or closing
    text: str
    id: str = ""


class Unsaved(NamedTuple):
    """The governed files that a session changed without a save, and the decisions on them."""

    files: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def lines(self) -> list[Line]:
        """The line of a brief about them."""
        text = f"The last session changed {listed(self.files, 80)} and saved nothing; "
        return [Line("unsaved", f"{text}save what was decided.")] if self.files else []


class Brief(NamedTuple):
    """What a session should know at its start; no lines if there is nothing."""

    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        """The brief as Markdown."""
        return "\n".join(line.text for line in self.lines)


def brief(store: Store, budget: int, paths: Collection[str] = ()) -> Brief:
    """Return what a session should know at its start, in at most `budget` tokens.

    `paths`: files that the session will work on, besides those that its branch changed.
    """
    with _facts(store) as facts:
        teller = _Teller(store, facts, paths)
        govern = teller.governing()
        lines = [
            *teller.checkpoint(budget),
            *teller.forks(govern),
            *teller.unsaved().lines,
            *teller.not_quoted(),
        ]
        lines += [*teller.meanwhile(), *teller.decisions("governs", govern, SHOWN)]
        if not govern:
            lines += teller.decisions("recent", teller.recent(), RECENT)
        heads = {
            "governs": "Decisions that hold and govern what this branch touches "
            f"(files: {len(teller.paths)}):",
            "recent": "Decisions that hold, on what changed last or on no file of their own:",
            "meanwhile": f"Decided on {quoted(teller.default, 60)} since this branch left it:",
        }
    return Brief(tuple(_fitted(lines, heads, len(govern), budget * TOKEN)))


def some(store: Store, paths: Collection[str] = (), ids: Collection[str] = ()) -> list[Line]:
    """Return a line for each live decision that governs one of `paths` or is one of `ids`.

    None of them is by strangers.
    """
    with _facts(store) as facts:
        teller = _Teller(store, facts)
        teller.paths = {*paths}
        rows = teller.governing() if paths else filter(_holds, facts.rows("id", ids))
        return teller.decisions("governs", rows, SHOWN)


def trusted(store: Store, ids: Collection[str]) -> list[Record]:
    """Return the records, of those with these ids, that may be quoted, in the order of the ids."""
    with _facts(store) as facts:
        teller = _Teller(store, facts)
        records = map(teller.record, facts.rows("id", ids))
        by_id = {record.id: record for record in records if record}
        return [by_id[name] for name in ids if name in by_id]


def unsaved(store: Store) -> Unsaved:
    """Return the governed files that the last session changed, if it saved nothing."""
    with _facts(store) as facts:
        return _Teller(store, facts).unsaved()


def quoted(text: str, limit: int) -> str:
    """Return a field as one line of at most `limit` characters, without markup, control or hidden characters."""
    flat = " ".join(text[: 20 * limit].translate(_HARMLESS).split())
    return cut("".join(one for one in flat if unicodedata.category(one)[0] != "C").strip(), limit)


def listed(names: Iterable[str], limit: int) -> str:
    """The first of some names, and how many more there are."""
    found = sorted(names)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(quoted(one, limit) for one in found[:NAMED]) + more


# what is told


class _Teller:
    """Collects the parts of a brief: it compares the current branch with the default one.

    What a part needs is found when it is first asked for. A whole brief calls Git four times, if
    references are files and origin is neither ahead nor behind, and once more on the default branch.
    """

    def __init__(self, store: Store, facts: Database, more: Collection[str] = ()) -> None:
        self.store = store
        self.facts = facts
        self.more = more  # files that count as touched by the branch
        self.apart = store.repo is not store.code  # whether the records have a branch of their own
        code = store.code
        default = code.default_branch()
        self.head = code.head() or ""
        self.branch = code.branch() or ""
        self.default = default.name if default else ""
        self.tips = touched.tips(code, default) if default and self.head else []

    @cached_property
    def dirty(self) -> set[str]:
        """The files of the work tree that are not committed."""
        return touched.dirty(self.store.code)

    @cached_property
    def mine(self) -> dict[str, str]:
        """What this branch changed since it left each tip of the default branch: blob by path."""
        sides = [touched.between(self.store.code, tip, self.head) for tip in self.tips]
        first = sides[0] if sides else {}
        return {path: blob for path, blob in first.items() if all(path in side for side in sides)}

    @cached_property
    def theirs(self) -> dict[str, str]:
        """What the default branch changed of the records since: blob by path in the store."""
        store = self.store
        blobs: dict[str, str] = {}
        for tip in () if self.apart else self.tips:
            blobs |= touched.between(store.code, self.head, tip, store.files.store)
        return {store.files.inside(path): blob for path, blob in blobs.items()}

    @cached_property
    def ahead(self) -> dict[str, str]:
        """The records among `theirs` that are still there."""
        return {path: blob for path, blob in self.theirs.items() if blob and is_listed(path)}

    @cached_property
    def foreign(self) -> set[str]:
        """The paths in the store of the records that others brought to this branch alone."""
        if self.apart:
            return set()
        store = self.store
        files = store.files
        shared = self.default or not self.head
        changed_here = self.mine if shared else store.code.listing(self.head, files.store)
        held = {
            files.inside(path): blob for path, blob in changed_here.items() if files.holds(path)
        }
        here = {path: blob for path, blob in held.items() if self.theirs.get(path) != blob}
        return touched.foreign(store, here) | self._merging()

    def _merging(self) -> set[str]:
        """The records that an open merge has brought: they are not committed yet."""
        code = self.store.code
        files = self.store.files
        if not code.busy() and not (code.git_dir / "SQUASH_MSG").exists():
            return set()
        return {files.inside(path) for path in self.dirty if files.holds(path)}

    @cached_property
    def paths(self) -> set[str]:
        """The files of code that the branch touches."""
        return {path for path in (*self.mine, *self.dirty) if self._is_code(path)} | {*self.more}

    def _is_code(self, path: str) -> bool:
        return self.apart or not self.store.files.holds(path)

    def not_quoted(self) -> list[Line]:
        """The line that counts the records that are not quoted, with the first ids."""
        ids = [
            short_id(row.written.id) for row in self.facts.rows("path", self.foreign) if row.visible
        ]
        lacking = quoted(self.default, 60) or "the default branch"
        told = f"Not quoted, saved by others and not on {lacking}: {len(ids)} of the records here ({listed(ids, 20)})."
        return [Line("strangers", told)] if ids else []

    def checkpoint(self, budget: int) -> list[Line]:
        """The last checkpoint of this branch, else of the default one."""
        for branch in filter(None, dict.fromkeys((self.branch, self.default))):
            rows = [
                row
                for row in self.facts.rows("branch", [branch])
                if row.visible and row.written.type == CHECKPOINT
            ]
            for row in sorted(rows, key=lambda row: row.written.age, reverse=True):
                if record := self.record(row):
                    when = f"{quoted(branch, 60)}, {format_time(row.written.created)[:10]}"
                    said = quoted(record.text or record.title, budget * TOKEN // 6)
                    steps = quoted(record.next_steps, budget * TOKEN // 10)
                    stood = Line("checkpoint", f"Where the work stood ({when}): {said}", record.id)
                    return (
                        [stood, Line("checkpoint", f"Next: {steps}", record.id)]
                        if steps
                        else [stood]
                    )
        return []

    def governing(self) -> list[Row]:
        """The live decisions that govern a file of the branch, the most important first."""
        reached = self._stated(self.paths)

        def rank(row: Row) -> tuple[bool, bool, int, int, str]:
            node = row.written
            touched = sum(reached.get(stated, 0) for stated in node.affects)
            exact = not self.paths.isdisjoint(node.affects)
            return (node.outcome not in BAD, not exact, -touched, -node.created, node.id)

        return sorted(self._on(reached), key=rank)

    def recent(self) -> list[Row]:
        """The live decisions on files that changed in the last days, and those that state no file.

        Those that failed come first, then the newest.
        """
        paths = {path for path in touched.recent(self.store.code, self.head) if self._is_code(path)}
        rows = {row.number: row for row in self._on(self._stated(paths))}
        everywhere = (row for row in self.facts.every(LOOKED) if not row.written.affects)
        rows |= {row.number: row for row in everywhere if _holds(row)}
        mine = (row for row in rows.values() if row.written.path not in self.foreign)
        return sorted(mine, key=lambda row: (row.written.outcome not in BAD, *_age(row)))

    def _stated(self, paths: Collection[str]) -> dict[str, int]:
        """How many of some files each path or glob of the decisions matches, if any."""
        counts = {stated: _matched(stated, paths) for stated in self.facts.stated("affects")}
        return {stated: count for stated, count in counts.items() if count}

    def _on(self, reached: Collection[str]) -> list[Row]:
        """The decisions that hold and state one of these paths and globs.

        What a stranger's record replaces is among them: a pull request must not silence it either.
        """
        foreign = self.facts.rows("path", self.foreign)
        replaced = {name for row in foreign for name in row.node.supersedes or ()}
        rows = self.facts.rows("affects", reached)
        holding = [
            row for row in rows if _holds(row) or (row.visible and row.written.id in replaced)
        ]
        return [row for row in holding if row.written.path not in self.foreign]

    def decisions(self, part: str, rows: Iterable[Row], most: int) -> list[Line]:
        """A line for each of the first `most` decisions."""
        records = map(self.record, rows)
        return [
            _line(part, one)
            for one in islice((one for one in records if one and one.status == "accepted"), most)
        ]

    def record(self, row: Row) -> Record | None:
        """A record as its file is now; None if it must not be quoted."""
        if row.written.path in self.foreign:
            return None
        record = self.store.read(row.written.path).record
        return None if record and audience(record) else record

    def forks(self, govern: Iterable[Row]) -> list[Line]:
        """The forked topics among the governing decisions."""
        keys = sorted({row.written.key for row in govern} - {""})
        rows = [*filter(_holds, self.facts.rows("key", keys))]
        heads = {
            key: [short_id(row.written.id) for row in rows if row.written.key == key]
            for key in keys
        }
        told = 'Open: {} decisions hold on "{}" ({}); choose first.'
        many = [(key, ids) for key, ids in heads.items() if len(ids) > 1]
        return [
            Line("fork", told.format(len(ids), quoted(key, 80), listed(ids, 20)))
            for key, ids in many
        ]

    def unsaved(self) -> Unsaved:
        """The governed files that the last session changed, if it saved nothing."""
        if not self.facts.stated("affects"):
            return Unsaved()
        files = {path for path in touched.session(self.store, self.dirty) if self._is_code(path)}
        rows = self._on(self._stated(files)) if files else []
        stated = {glob for row in rows for glob in row.written.affects}
        governed = {path for glob in stated for path in files if affects_match(glob, path)}
        newest = sorted(rows, key=_age)
        return Unsaved(tuple(sorted(governed)), tuple(newest) if governed else ())

    def meanwhile(self) -> list[Line]:
        """What the default branch decided about the same files since this branch left it."""
        ahead = dict(islice(self.ahead.items(), MANY))
        read = zip(ahead, self.store.repo.blobs(ahead.values()), strict=True)
        found = [self.store.parse(data[:MAX_SIZE], path).record for path, (_, data) in read if data]
        theirs = {
            one.id: one
            for one in found
            if one and one.type == DECISION and one.status == "accepted"
        }
        gone = {old for one in theirs.values() for old in one.supersedes or ()}
        news = [
            one
            for one in theirs.values()
            if one.id not in gone and any(_matched(stated, self.paths) for stated in one.affects)
        ]
        return [
            _line("meanwhile", one)
            for one in sorted(news, key=lambda one: (one.created or 0, one.id))[:SHOWN]
        ]


def _age(row: Row) -> tuple[int, str]:
    """The sort key that puts the newest first."""
    return (-row.written.created, row.written.id)


def _matched(stated: str, paths: Collection[str]) -> int:
    """How many files a path or glob matches."""
    if not within(stated):
        return 0
    start = fixed(stated)  # which is quick to compare
    return sum(path.startswith(start) and affects_match(stated, path) for path in paths)


def _holds(row: Row) -> bool:
    return row.visible and row.live and row.written.type == DECISION


def _line(part: str, record: Record) -> Line:
    """A decision in a line: what was decided, what was rejected, and whether it failed."""
    parts = [quoted(record.decision or record.title, 170).rstrip(".")]
    if ruled := "; ".join(quoted(one.partition(": ")[0], 60) for one in record.rejected[:3]):
        parts.append(f"Ruled out: {cut(ruled, 110)}")
    if record.outcome in BAD:
        why = next((quoted(one.reason, 80) for one in reversed(record.outcomes) if one.reason), "")
        parts.append(f"Outcome: {record.outcome}" + (f", {why}" if why else ""))
    told = " ".join(part if part.endswith("…") else f"{part}." for part in parts)
    return Line(part, f"- [{quoted(short_id(record.id), 20)}] {told}", record.id)


def _fitted(
    lines: Iterable[Line], heads: Mapping[str, str], govern: int, room: int
) -> Iterator[Line]:
    """The lines that fit into this number of characters, with headings; earlier lines come first."""
    more, kept, parts = "- {} more govern: `search path:FILE is:live`", list[Line](), set[str]()
    room -= sum(len(one) + 1 for one in (TITLE, CLOSING, more))
    for line in lines:
        head = (
            [Line(line.part, heads[line.part])]
            if line.part in heads and line.part not in parts
            else []
        )
        if (cost := sum(len(one.text) + 1 for one in (*head, line))) <= room:
            kept, room = [*kept, *head, line], room - cost
            parts.add(line.part)
    left = govern - sum(line.part == "governs" and bool(line.id) for line in kept)
    kept += [Line("governs", more.format(left))] if left else []
    return iter([Line("title", TITLE), *kept, Line("closing", CLOSING)] if kept else [])


# what it rests on


@contextmanager
def _facts(store: Store) -> Iterator[Database]:
    """The records as the index knows them, in step with the files; no model is loaded for that."""
    index = store.index
    try:
        catch_up(store, full=index.count() <= FEW, meaning=False)
    except (BrokenStore, Locked):
        index = index if index.sound else store.from_files().index
    with index.facts() as facts:
        yield facts
