"""Problems with the records of a snapshot: of each alone, and of all together.

Rule: problems follow from a snapshot alone, so that two can be compared: a branch brings the
problems that its merge has and the base has not. What was found is kept in the index.
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
from filemem.chain.compare import is_fork_eased
from filemem.config import REPOSITORY_FILE
from filemem.errors import NotFound
from filemem.files import MAX_SIZE, is_listed, is_private, is_record
from filemem.memory import evidence
from filemem.memory.remembered import CheckCache
from filemem.memory.snapshot import (
    Snapshot,
    read_commit,
    read_merge,
    read_work_tree,
    resolve_moment,
)
from filemem.memory.store import SYNONYMS, Store
from filemem.query.terms import MAX_LINES, MAX_LIST_SIZE, parse_groups
from filemem.record import (
    TYPES,
    UNKNOWN_STATUS,
    Problem,
    describe_character,
    find_hidden_characters,
    format_time,
    lint,
    parse_adr_number,
)

DAY = 86_400_000  # milliseconds; clocks differ, but not by more
_SAVED_EXAMPLES = tuple(f"{kind}s/2025/01/a.md" for kind in TYPES)  # the like of what is saved


class Finding(NamedTuple):
    """A problem, and what identifies it in another snapshot: the record and the kind of problem."""

    problem: Problem
    subject: str
    detail: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for the same problem in two snapshots."""
        problem = self.problem
        return problem.code, problem.level, self.subject, self.detail or problem.message


def check_records(
    store: Store, paths: Iterable[str], base: str = ""
) -> tuple[int, tuple[Problem, ...]]:
    """Check every record; return how many files were read, and their problems in order.

    The worst come first, then they stand by path and line. `paths`: report only these files or
    folders (store-relative or below the work tree). `base`: report only what merging HEAD into
    that revision would bring.

    Raises NotFound: a path that holds no record, or no such revision; Conflict: HEAD has no history
    in common with `base`; BrokenStore: versions of records are missing, or Git is too old to merge.
    """
    snapshot, rows = _find_merge_problems(store, base) if base else _find_work_tree_problems(store)
    store_paths = [_resolve_store_path(store, path) for path in paths]
    for path in filter(None, store_paths):
        if not any(_is_in([path], file) for file in snapshot.files):
            raise NotFound(f"{path}: no record there", f"name a file or folder below {store.name}/")
    if store_paths:
        rows = [row for row in rows if _is_in(store_paths, row.path)]
    public_problems = set(map(partial(_build_public_problem, store), rows))
    if not store_paths and not base:
        public_problems.update(_iter_settings_problems(store))
    count = sum(map(is_listed, snapshot.files))
    return count, tuple(sorted(public_problems, key=lambda row: row.sort_key))


def _find_merge_problems(store: Store, base: str) -> tuple[Snapshot, list[Problem]]:
    """The merge of HEAD into a revision, and the problems that it would bring."""
    commit = resolve_moment(store, base, "base").id
    remembered = CheckCache(store)
    parse_once = cache(remembered.lint)  # what two commits have is read once
    before = read_commit(store, commit, parse_once)
    merge = read_merge(store, commit, parser=parse_once)
    return merge, remembered.find_problems(
        merge,
        before,
        lambda: [*list_new_problems(before, merge), *evidence.iter_problems(merge, commit)],
    )


def _find_work_tree_problems(store: Store) -> tuple[Snapshot, list[Problem]]:
    remembered = CheckCache(store)
    snapshot = read_work_tree(store, remembered.lint)

    def find_problems() -> list[Problem]:
        of_records = (finding.problem for finding in list_findings(snapshot))
        return [*of_records, *evidence.iter_problems(snapshot, "")]

    known_problems = remembered.find_problems(snapshot, None, find_problems)
    return snapshot, [*known_problems, *_iter_obstacles(store, snapshot)]


def _resolve_store_path(store: Store, path: str) -> str:
    """A path as the caller names it, in the store; "" for all of it."""
    path = path.strip("/")
    return "" if path == store.name else store.to_store_path(path)


def _is_in(folders: Iterable[str], path: str) -> bool:
    """True if a path is one of these folders or files, or in one; "" is all of the store."""
    return any(f in ("", path) or path.startswith(f"{f}/") for f in folders)


def _build_public_problem(store: Store, problem: Problem) -> Problem:
    """A problem with its path as shown; a path that looks like a secret is cut to its folder."""
    path = problem.path
    if secrets.find_secrets(path):
        path = posixpath.dirname(path)
    return problem._replace(path=store.to_display_path(path))


def _iter_settings_problems(store: Store) -> Iterator[Problem]:
    """Settings that are passed over."""
    for sentence in filter(None, (store.config.read_error, *store.config.unknown_settings)):
        yield Problem(REPOSITORY_FILE, 1, "settings", "warning", sentence)


def list_new_problems(before: Snapshot, after: Snapshot) -> list[Problem]:
    """Return the problems of a merge that its base has not, and what Git cannot merge."""
    files = after.store.files
    text = "both sides changed it, and Git cannot merge the two: merge the base into this branch"
    conflict_paths = {
        files.to_store_path(clash.path)
        for clash in after.conflicts
        if files.is_in_store(clash.path)
    }
    rows = [Problem(path, 1, "merge-conflict", "warning", text) for path in sorted(conflict_paths)]
    counts = Counter(finding.key for finding in list_findings(before))
    for finding in list_findings(after):
        counts[finding.key] -= 1
        if counts[finding.key] < 0 and finding.problem.path not in conflict_paths:
            rows += _iter_new_problem(finding, before, after)
    return rows


def _iter_new_problem(finding: Finding, before: Snapshot, after: Snapshot) -> Iterator[Problem]:
    """A problem of a merge that its base has not, as a review shows it."""
    problem = finding.problem
    if problem.code == "same-number":  # the merge would double it
        yield problem._replace(level="warning")
    elif problem.code != "forked-topic":
        yield problem
    elif not is_fork_eased(before.graph, after.graph, finding.subject):
        heads = after.graph.get_chain(finding.subject).heads
        new = [head for head in heads if head not in before.nodes]  # a review shows these files
        yield problem._replace(path=after.records_by_id[(new or heads)[-1]].path)


def list_findings(snapshot: Snapshot) -> list[Finding]:
    """Return all problems of the records of a snapshot and of the files beside them."""
    return [
        *(Finding(problem, problem.path) for problem in snapshot.scan_problems),
        *_iter_record_findings(snapshot),
        *_iter_unknown_statuses(snapshot),
        *_iter_cross_findings(snapshot),
        *_iter_other_files(snapshot),
        *_iter_bad_names(snapshot),
    ]


def _iter_record_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Problems of one record alone."""
    for path, data in snapshot.data.items():
        if len(data) > MAX_SIZE:
            text = f"larger than {MAX_SIZE} bytes: not read"
            yield Finding(Problem(path, 1, "too-large", "error", text), path)
    for path, parsed in snapshot.parsed_files.items():
        record = parsed.record
        for problem in parsed.problems:
            if problem.code != UNKNOWN_STATUS:
                secret = _get_line(snapshot, problem) if problem.code == "secret" else ""
                yield Finding(problem, record.id if record else path, secret)
        if record and path not in snapshot.records:
            text = (
                f"{record.id} was forgotten, so it is hidden: "
                "remove the file, or filemem restore it"
            )
            yield Finding(Problem(path, 1, "forgotten", "warning", text), record.id)
    yield from _iter_future_dates(snapshot)


def _get_line(snapshot: Snapshot, problem: Problem) -> str:
    """The line of the file that a problem is about."""
    lines = snapshot.data[problem.path].decode(errors="replace").splitlines()
    return lines[problem.line - 1].strip() if problem.line <= len(lines) else ""


def _iter_future_dates(snapshot: Snapshot) -> Iterator[Finding]:
    """Dates that lie in the future."""
    limit = snapshot.store.clock() + DAY
    for path, record in snapshot.records.items():
        dates = [(outcome.at, "future-outcome", "outcome of") for outcome in record.outcomes]
        dates.append((snapshot.dates[path], "future-created", "date,"))
        for time, code, label in dates:
            if time > limit:
                date = format_time(time)[:10]
                text = (
                    f"its {label} {date} is in the future, so it counts as the newest: correct it"
                )
                yield Finding(Problem(path, 1, code, "warning", text), record.id)


def _iter_unknown_statuses(snapshot: Snapshot) -> Iterator[Finding]:
    """Statuses that are not understood, each word once."""
    words: dict[str, list[Problem]] = {}
    for parsed in snapshot.parsed_files.values():
        for problem in parsed.problems:
            if problem.code == UNKNOWN_STATUS:
                words.setdefault(problem.message.casefold(), []).append(problem)
    for word, cases in words.items():
        count_note = f" (and in {len(cases) - 1} more)" if len(cases) > 1 else ""
        first = cases[0]
        row = f'{word.partition(": ")[2]} = "proposed"'
        text = f"{first.message}{count_note}; to explain it, write under [status] in "
        yield Finding(first._replace(message=f"{text}{REPOSITORY_FILE}: {row}"), "", word)


def _iter_cross_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Problems across files: ids used twice, broken links, cycles, forks."""
    yield from _iter_duplicate_ids(snapshot)
    yield from _iter_shared_numbers(snapshot)
    for flaw in snapshot.graph.problems:
        path = snapshot.records_by_id[flaw.node].path
        yield Finding(Problem(path, 1, flaw.code, flaw.level, flaw.message), flaw.node)
    for node in snapshot.nodes.values():
        for kind, target, _ in node.edges:
            if target in snapshot.missing_references and not snapshot.is_forgotten(target):
                text = f"{kind} {target}: it matches no record, or several"
                yield Finding(Problem(node.path, 1, "dangling-edge", "warning", text), node.id)
    yield from _iter_forks(snapshot)


def _iter_duplicate_ids(snapshot: Snapshot) -> Iterator[Finding]:
    for path, record in snapshot.records.items():
        first = snapshot.records_by_id[record.id].path
        if first != path:
            text = (
                f"the id {record.id} is also that of {snapshot.store.to_display_path(first)}, "
                "which is shown: give this file its own id"
            )
            yield Finding(Problem(path, 1, "duplicate-id", "error", text), path, record.id)


def _iter_forks(snapshot: Snapshot) -> Iterator[Finding]:
    for key, chain in snapshot.graph.chains.items():
        if chain.is_forked:
            heads = [snapshot.records_by_id[head] for head in chain.heads]
            topic = heads[-1].topic
            paths = ", ".join(snapshot.store.to_display_path(head.path) for head in heads)
            text = (
                f"{topic} is forked: {paths} hold at once; filemem resolve {shlex.quote(topic)} "
                "--decision ... --reasoning ... ends it"
            )
            problem = Problem(heads[-1].path, 1, "forked-topic", "warning", text)
            yield Finding(problem, key, " ".join(sorted(chain.heads)))


def _iter_shared_numbers(snapshot: Snapshot) -> Iterator[Finding]:
    """ADR numbers that two files of a folder share, as happens on two branches."""
    numbers: dict[tuple[str, int], list[str]] = {}
    for path, record in sorted(snapshot.records.items()):
        number = parse_adr_number(path, record.id)
        if number is not None:
            numbers.setdefault((posixpath.dirname(path), number), []).append(path)
    for (_, number), paths in numbers.items():
        if len(paths) > 1:
            taken_by = " and ".join(map(snapshot.store.to_display_path, paths))
            text = f"the number {number} is taken by {taken_by}: filemem renumber {number}"
            yield Finding(Problem(paths[-1], 1, "same-number", "hint", text), paths[-1])


def _iter_other_files(snapshot: Snapshot) -> Iterator[Finding]:
    """Problems of files that are not records, and private files that Git tracks."""
    blob = cache(partial(snapshot.store.repo.read_blob, max_size=MAX_SIZE))
    for path, oid in snapshot.files.items():
        if path in snapshot.untracked_paths:
            continue
        if _is_for_one_clone(snapshot, path):
            text = (
                "is private, and Git has it: "
                "git rm --cached it, and purge it from history if it was pushed"
            )
            yield Finding(Problem(path, 1, "private-committed", "error", text), path)
        if not is_listed(path):
            for problem in lint.lint_other_file(blob(oid) or b"", path):
                yield Finding(problem, path)
    synonyms = snapshot.store.synonyms
    if not snapshot.is_on_disk:
        synonyms = (blob(snapshot.files.get(SYNONYMS, "")) or b"").decode(errors="replace")
    for number, text, line in _iter_malformed_lines(synonyms):
        yield Finding(Problem(SYNONYMS, number, "synonyms", "warning", text), SYNONYMS, line)


def _iter_malformed_lines(synonyms: str) -> Iterator[tuple[int, str, str]]:
    """What is not read of a list of synonyms: the line, what is wrong, and what it says."""
    rows = synonyms.splitlines()
    for number in parse_groups(synonyms)[1]:
        message = "is no group of synonyms: write it like `auth | sign in > oauth, saml`"
        yield number, message, rows[number - 1]
    if len(rows) > MAX_LINES or len(synonyms) > MAX_LIST_SIZE:
        message = f"is read up to {MAX_LINES} lines and {MAX_LIST_SIZE:,} characters"
        yield min(len(rows), MAX_LINES), message, ""


def _is_for_one_clone(snapshot: Snapshot, path: str) -> bool:
    """True if a record says that it is private, or stands where private ones do."""
    record = snapshot.records.get(path)
    if record is not None and record.visibility == "private":
        return True
    return is_private(path) and not posixpath.basename(path).startswith(".")


def _iter_bad_names(snapshot: Snapshot) -> Iterator[Finding]:
    """File names that mislead readers, are not read, or look like secrets."""
    paths = sorted(snapshot.files)
    parts = sorted({part for path in paths for part in accumulate(path.split("/"), "{}/{}".format)})
    for path in parts:
        hidden_found = find_hidden_characters(posixpath.basename(path))
        if hidden_found:
            printable_path = path.encode("utf-8", "backslashreplace").decode()
            text = f"its name holds {describe_character(hidden_found)}: rename it"
            yield Finding(Problem(printable_path, 1, "hidden-character", "warning", text), path)
        elif _is_passed_over(snapshot, path):
            text = (
                "holds a file whose name has control characters or is of Git's own: it is not read"
            )
            yield Finding(Problem(posixpath.dirname(path), 1, "file-name", "error", text), path)
    for secret in secrets.find_secrets("\n".join(paths)):
        path = paths[secret.line - 1]
        text = (
            f"the name of a file in here looks like a secret ({secret.kind}): "
            "rename it, and revoke it"
        )
        yield Finding(Problem(posixpath.dirname(path), 1, "secret", "error", text), path)


def _is_passed_over(snapshot: Snapshot, path: str) -> bool:
    """True if a commit has this record, and its name keeps it from being read."""
    is_file = path in snapshot.files and not snapshot.is_on_disk
    return is_file and is_record(path) and not is_listed(path)


def _iter_obstacles(store: Store, snapshot: Snapshot) -> Iterator[Problem]:
    """Obstacles to reading or committing the records of the work tree."""
    obstacle = store.find_obstacle()
    if store.repo.list_sparse_files(store.files.store):
        level = "hint" if snapshot.records else "error"
        yield Problem("", 1, "sparse-checkout", level, obstacle)
    elif obstacle:
        yield Problem("", 1, "store-missing", "error", obstacle)
    for path in () if obstacle else snapshot.lost_paths:
        restore = f"git restore {store.to_display_path(path)}"
        text = f"Git has it and the work tree does not: {restore}, or commit its removal"
        yield Problem(path, 1, "record-missing", "warning", text)
    ignored = store.repo.find_ignored(*map(store.files.to_work_tree_path, _SAVED_EXAMPLES))
    if ignored:
        text = f"what is saved here stays uncommitted: Git ignores {ignored}"
        yield Problem("", 1, "ignored", "hint", text)
