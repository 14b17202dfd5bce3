"""Problems with the records of a snapshot: of each alone, and of all together. What was found is kept in the index.

Rule: problems follow from a snapshot alone, so that two can be compared: a branch brings the problems that its merge
has and the base has not.
"""

from __future__ import annotations

import posixpath
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

from filemem import secrets
from filemem.chain.compare import eased
from filemem.config import REPOSITORY_FILE
from filemem.errors import NotFound
from filemem.files import MAX_SIZE, is_listed, is_private, is_record
from filemem.memory import evidence
from filemem.memory.remembered import Remembered
from filemem.memory.snapshot import Snapshot, moment, of_commit, of_merge, of_work_tree
from filemem.memory.store import SYNONYMS, Store, malformed
from filemem.record import TYPES, UNKNOWN_STATUS, Problem, adr_number, format_time, lint, short_id
from filemem.record.lines import hidden_characters, named

DAY = 86_400_000  # milliseconds; clocks differ, but not by more
NAMED = 5  # files that a message names
_SAVED = tuple(f"{kind}s/2025/01/a.md" for kind in TYPES)  # the like of what is saved


class Finding(NamedTuple):
    """A problem, and what identifies it in another snapshot: the record and the kind of problem."""

    problem: Problem
    about: str
    what: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for the same problem in two snapshots."""
        return self.problem.code, self.problem.level, self.about, self.what or self.problem.message


def check(store: Store, paths: Iterable[str], base: str = "") -> tuple[int, tuple[Problem, ...]]:
    """Check every record; return how many files were read, and their problems, the worst first, then by path and line.

    `paths`: report only these files or folders (store-relative or below the work tree). `base`: report only what
    merging HEAD into that revision would bring.

    Raises NotFound: a path that holds no record, or no such revision; Conflict: HEAD has no history in common with
    `base`; BrokenStore: versions of records are missing, or Git is too old to merge.
    """
    against = moment(store, base, "base").id if base else ""
    remembered = Remembered(store)
    reading = cache(remembered.lint)  # what two commits have is read once
    if against:
        before = of_commit(store, against, reading)
        now = of_merge(store, against, reading=reading)
        found = remembered.problems(
            now, before, lambda: [*brought(before, now), *_of_code(now, against)]
        )
    else:
        now = of_work_tree(store, remembered.lint)
        found = remembered.problems(now, None, lambda: [*_of_records(now), *_of_code(now, "")])
        found += _of_work_tree(store, now)
    wanted = [
        store.asked(path.strip("/")) if path.strip("/") != store.name else "" for path in paths
    ]
    for path in wanted:
        if path and not any(one == path or one.startswith(f"{path}/") for one in now.files):
            raise NotFound(f"{path}: no record there", f"name a file or folder below {store.name}/")
    shown = [
        p
        for p in found
        if not wanted or any(p.path == w or p.path.startswith(f"{w}/") for w in wanted)
    ]
    plain = (
        (one, posixpath.dirname(one.path) if secrets.find(one.path) else one.path) for one in shown
    )
    named = {one._replace(path=store.shown(path)) for one, path in plain}
    if not wanted and not against:
        named.update(_of_settings(store))
    return sum(map(is_listed, now.files)), tuple(sorted(named, key=lambda one: one.order))


def _of_records(now: Snapshot) -> list[Problem]:
    return [finding.problem for finding in problems(now)]


def _of_settings(store: Store) -> Iterator[Problem]:
    """Settings that are passed over."""
    for sentence in filter(None, (store.config.unread, *store.config.unknown)):
        yield Problem(REPOSITORY_FILE, 1, "settings", "warning", sentence)


def brought(before: Snapshot, after: Snapshot) -> list[Problem]:
    """Return the problems of a merge that its base has not, and what Git cannot merge."""
    known = Counter(finding.key for finding in problems(before))
    files = after.store.files
    text = "both sides changed it, and Git cannot merge the two: merge the base into this branch"
    torn = {files.inside(clash.path) for clash in after.conflicts if files.holds(clash.path)}
    found = [Problem(path, 1, "merge-conflict", "warning", text) for path in sorted(torn)]
    for finding in problems(after):
        known[finding.key] -= 1
        if known[finding.key] >= 0 or finding.problem.path in torn:
            continue
        if finding.problem.code == "same-number":  # the merge would double it
            found.append(finding.problem._replace(level="warning"))
        elif finding.problem.code != "forked-topic":
            found.append(finding.problem)
        elif not eased(before.graph, after.graph, finding.about):
            heads = after.graph.chain(finding.about).heads
            new = [
                head for head in heads if head not in before.nodes
            ]  # a review shows files that the branch brings
            found.append(finding.problem._replace(path=after.by_id[(new or heads)[-1]].path))
    return found


def problems(snapshot: Snapshot) -> list[Finding]:
    """Return all problems of the records of a snapshot and of the files beside them."""
    return [
        *(Finding(problem, problem.path) for problem in snapshot.skipped),
        *_each(snapshot),
        *_statuses(snapshot),
        *_together(snapshot),
        *_others(snapshot),
        *_names(snapshot),
    ]


def _each(snapshot: Snapshot) -> Iterator[Finding]:
    """Problems of one record alone."""
    for path, data in snapshot.data.items():
        if len(data) > MAX_SIZE:
            yield Finding(
                Problem(path, 1, "too-large", "error", f"larger than {MAX_SIZE} bytes: not read"),
                path,
            )
    for path, parsed in snapshot.parsed.items():
        rows = snapshot.data[path].decode(errors="replace").splitlines() if parsed.problems else []
        for one in parsed.problems:
            if one.code == UNKNOWN_STATUS:
                continue
            row = (
                rows[one.line - 1].strip() if one.code == "secret" and one.line <= len(rows) else ""
            )
            yield Finding(one, parsed.record.id if parsed.record else path, row)
        if parsed.record and path not in snapshot.records:
            text = f"{parsed.record.id} was forgotten, so it is hidden: remove the file, or filemem restore it"
            yield Finding(Problem(path, 1, "forgotten", "warning", text), parsed.record.id)
    limit = snapshot.store.clock() + DAY
    for path, record in snapshot.records.items():
        entries = [(entry.at, "future-outcome", "outcome of") for entry in record.outcomes]
        for at, code, what in (*entries, (snapshot.dates[path], "future-created", "date,")):
            if at > limit:
                text = f"its {what} {format_time(at)[:10]} is in the future, so it counts as the newest: correct it"
                yield Finding(Problem(path, 1, code, "warning", text), record.id)


def _statuses(snapshot: Snapshot) -> Iterator[Finding]:
    """Statuses that are not understood, each word once."""
    words: dict[str, list[Problem]] = {}
    for parsed in snapshot.parsed.values():
        for problem in parsed.problems:
            if problem.code == UNKNOWN_STATUS:
                words.setdefault(problem.message.casefold(), []).append(problem)
    for word, cases in words.items():
        others = f" (and in {len(cases) - 1} more)" if len(cases) > 1 else ""
        first = cases[0]
        row = f'{word.partition(": ")[2]} = "proposed"'
        text = f"{first.message}{others}; to explain it, write under [status] in "
        yield Finding(first._replace(message=f"{text}{REPOSITORY_FILE}: {row}"), "", word)


def _together(snapshot: Snapshot) -> Iterator[Finding]:
    """Problems across files: ids used twice, broken links, cycles, forks."""
    by_id, shown = snapshot.by_id, snapshot.store.shown
    for path, record in snapshot.records.items():
        if (first := by_id[record.id].path) != path:
            text = f"the id {record.id} is also that of {shown(first)}, which is shown: give this file its own id"
            yield Finding(Problem(path, 1, "duplicate-id", "error", text), path, record.id)
    yield from _numbers(snapshot)
    for flaw in snapshot.graph.problems:
        yield Finding(
            Problem(by_id[flaw.node].path, 1, flaw.code, flaw.level, flaw.message), flaw.node
        )
    for node in snapshot.nodes.values():
        for kind, target, _ in node.edges:
            if target in snapshot.missing and not snapshot.is_forgotten(target):
                text = f"{kind} {target}: it matches no record, or several"
                yield Finding(Problem(node.path, 1, "dangling-edge", "warning", text), node.id)
    for key, chain in snapshot.graph.chains.items():
        if chain.is_forked:
            heads = [by_id[head] for head in chain.heads]
            topic, named = heads[-1].topic, ", ".join(shown(one.path) for one in heads)
            text = f"{topic} is forked: {named} hold at once; "
            text += f"filemem resolve {shlex.quote(topic)} --decision ... --reasoning ... ends it"
            problem = Problem(heads[-1].path, 1, "forked-topic", "warning", text)
            yield Finding(problem, key, " ".join(sorted(chain.heads)))


def _numbers(snapshot: Snapshot) -> Iterator[Finding]:
    """ADR numbers that two files of a folder share, as happens on two branches."""
    numbers: dict[tuple[str, int], list[str]] = {}
    for path, record in sorted(snapshot.records.items()):
        if (number := adr_number(path, record.id)) is not None:
            numbers.setdefault((posixpath.dirname(path), number), []).append(path)
    for (_, number), paths in numbers.items():
        if len(paths) > 1:
            taken = " and ".join(map(snapshot.store.shown, paths))
            text = f"the number {number} is taken by {taken}: filemem renumber {number}"
            yield Finding(Problem(paths[-1], 1, "same-number", "hint", text), paths[-1])


def _others(snapshot: Snapshot) -> Iterator[Finding]:
    """Problems of files that are not records, and private files that Git tracks."""
    blob = cache(partial(snapshot.store.repo.blob, most=MAX_SIZE))
    for path, oid in snapshot.files.items():
        if path in snapshot.untracked:
            continue
        record = snapshot.records.get(path)
        stated = record is not None and record.visibility == "private"
        if stated or (is_private(path) and not posixpath.basename(path).startswith(".")):
            text = "is private, and Git has it: git rm --cached it, and purge it from history if it was pushed"
            yield Finding(Problem(path, 1, "private-committed", "error", text), path)
        if not is_listed(path):
            yield from (Finding(one, path) for one in lint.lint_other(blob(oid) or b"", path))
    committed = not snapshot.on_disk and blob(snapshot.files.get(SYNONYMS, ""))
    words = (
        snapshot.store.synonyms if snapshot.on_disk else (committed or b"").decode(errors="replace")
    )
    for line, text, said in malformed(words) if words else ():
        yield Finding(Problem(SYNONYMS, line, "synonyms", "warning", text), SYNONYMS, said)


def _names(snapshot: Snapshot) -> Iterator[Finding]:
    """File names that mislead readers, are not read, or look like secrets."""
    paths = sorted(snapshot.files)
    there = sorted({part for path in paths for part in accumulate(path.split("/"), "{}/{}".format)})
    for path in there:
        shown, name = path.encode("utf-8", "backslashreplace").decode(), posixpath.basename(path)
        if found := hidden_characters(name):
            text = f"its name holds {named(found)}: rename it"
            yield Finding(Problem(shown, 1, "hidden-character", "warning", text), path)
        elif (
            is_record(path)
            and path in snapshot.files
            and not is_listed(path)
            and not snapshot.on_disk
        ):
            text = (
                "holds a file whose name has control characters or is of Git's own: it is not read"
            )
            yield Finding(Problem(posixpath.dirname(path), 1, "file-name", "error", text), path)
    for secret in secrets.find("\n".join(paths)):
        path = paths[secret.line - 1]
        text = f"the name of a file in here looks like a secret ({secret.kind}): rename it, and revoke it"
        yield Finding(Problem(posixpath.dirname(path), 1, "secret", "error", text), path)


def _of_work_tree(store: Store, now: Snapshot) -> Iterator[Problem]:
    """Obstacles to reading or committing the records of the work tree."""
    obstacle = store.obstacle()
    if store.repo.sparse(store.files.store):
        yield Problem("", 1, "sparse-checkout", "hint" if now.records else "error", obstacle)
    elif obstacle:
        yield Problem("", 1, "store-missing", "error", obstacle)
    for path in () if obstacle else now.lost:
        text = f"Git has it and the work tree does not: git restore {store.shown(path)}, or commit its removal"
        yield Problem(path, 1, "record-missing", "warning", text)
    if found := store.repo.ignored(*map(store.files.named, _SAVED)):
        yield Problem(
            "", 1, "ignored", "hint", f"what is saved here stays uncommitted: Git ignores {found}"
        )


def _of_code(now: Snapshot, base: str) -> Iterator[Problem]:
    """Evidence against live decisions, and drift; with a base, only what came or changed since.

    Drift is reported if a path that a decision names, or half of its files, no longer exist and no outcome is newer.
    """
    store = now.store
    if base and store.repo is not store.code:
        return  # the base is a commit of the memory, and says nothing of the code
    testimony = evidence.Testimony(store, now.resolve)
    since = (store.code.parted(base, testimony.tip) or base) if base else ""
    before, after = (
        (store.code.listing(tip, ".") for tip in (since, testimony.tip)) if base else ({}, {})
    )
    known = store.history.ancestors(base) if base else ()
    live = [(node, now.by_id[node.id]) for node in now.nodes.values() if now.graph.is_head(node.id)]
    drifts = evidence.drifts(store, live, testimony)
    for node, record in live:
        drift = drifts.get(node.id)
        files = (*drift.missing, *drift.changed) if drift and drift.outgrown else ()
        changed = [one for one in files if not base or before.get(one) != after.get(one)]
        if drift and changed and not evidence.answered(store, record, drift, testimony.tip):
            text = f"the code that it governs is {drift}: {', '.join(changed[:NAMED])}"
            yield Problem(node.path, 1, "drift", "warning", text)
        for found in testimony.of(node, record):
            if found.commit not in known:
                text = f"{found}; if so: filemem update {short_id(node.id)} --outcome {found.outcome} --reason ..."
                yield Problem(node.path, 1, "evidence", "warning", text)
