"""Find problems with the records of a snapshot: of each record alone, and of all together.

Rule: problems depend on a snapshot alone, so that two snapshots can be compared: a branch adds the
problems that its merge has and the base has not. The index caches results.
"""

from __future__ import annotations

import posixpath
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter
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
    ParsedRecord,
    Problem,
    describe_character,
    find_hidden_characters,
    format_time,
    lint,
    parse_adr_number,
)

DAY = 86_400_000  # milliseconds; clocks differ, but not by more
_SAVED_EXAMPLES = tuple(f"{kind}s/2025/01/a.md" for kind in TYPES)  # paths such as saves make


class Finding(NamedTuple):
    """A problem, and how to recognize it in another snapshot: by the record and further detail."""

    problem: Problem
    subject: str
    detail: str = ""  # "" if the message identifies the problem

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for one problem in two snapshots."""
        problem = self.problem
        return problem.code, problem.level, self.subject, self.detail or problem.message


def _build_finding(
    path: str, subject: str, *, code: str, level: str, message: str, detail: str = ""
) -> Finding:
    """Build the finding of a problem with a whole file."""
    problem = Problem(path, line=1, code=code, level=level, message=message)
    return Finding(problem, subject, detail)


def check_records(
    store: Store, paths: Iterable[str], base: str = ""
) -> tuple[int, tuple[Problem, ...]]:
    """Check every record; return the number of files read, and their problems, worst first.

    Args:
        paths: Report only these files or folders (in the store or below the work tree).
        base: Report only problems that merging HEAD into this revision would add.

    Raises:
        NotFound: A path has no record, or there is no such revision.
        Conflict: HEAD has no history in common with `base`.
        BrokenStore: Versions of records are missing, or Git is too old to merge.
    """
    if base:
        snapshot, problems = _find_merge_problems(store, base)
    else:
        snapshot, problems = _find_work_tree_problems(store)
    store_paths = [_resolve_store_path(store, path) for path in paths]
    for path in store_paths:
        _require_record(snapshot, path)
    if store_paths:
        problems = [problem for problem in problems if _is_in(store_paths, problem.path)]
    public_problems = {_build_public_problem(store, problem) for problem in problems}
    if not store_paths and not base:
        public_problems.update(_iter_settings_problems(store))
    count = sum(is_listed(path) for path in snapshot.files)
    return count, tuple(sorted(public_problems, key=attrgetter("sort_key")))


def _require_record(snapshot: Snapshot, path: str) -> None:
    """Raise NotFound if there is no record at this path in the store or below it."""
    for file in snapshot.files:
        if _is_in([path], file):
            return
    if path:
        name = snapshot.store.name
        raise NotFound(f"{path}: no record there", f"name a file or folder below {name}/")


def _find_merge_problems(store: Store, base: str) -> tuple[Snapshot, list[Problem]]:
    """Merge HEAD into a revision; return the merge and the problems that it would add."""
    commit = resolve_moment(store, base, "base").id
    check_cache = CheckCache(store)
    parse_once = cache(check_cache.lint)  # most files are equal in both commits
    before = read_commit(store, commit, parse_once)
    merge = read_merge(store, commit, parser=parse_once)

    def find_problems() -> list[Problem]:
        problems = list_new_problems(before, merge)
        problems += evidence.iter_problems(merge, commit)
        return problems

    return merge, check_cache.find_problems(merge, before, find_problems)


def _find_work_tree_problems(store: Store) -> tuple[Snapshot, list[Problem]]:
    """Read the work tree; return its snapshot and problems."""
    check_cache = CheckCache(store)
    snapshot = read_work_tree(store, check_cache.lint)

    def find_problems() -> list[Problem]:
        problems = [finding.problem for finding in list_findings(snapshot)]
        problems += evidence.iter_problems(snapshot, "")
        return problems

    problems = list(check_cache.find_problems(snapshot, None, find_problems))
    problems += _iter_obstacles(store, snapshot)
    return snapshot, problems


def _resolve_store_path(store: Store, path: str) -> str:
    """Resolve a path as the caller names it to a path in the store; "" for the whole store."""
    path = path.strip("/")
    if path == store.name:
        return ""
    return store.to_store_path(path)


def _is_in(places: Iterable[str], path: str) -> bool:
    """Return whether a path is one of these files or folders, or inside one; "" is the store."""
    return any(place in ("", path) or path.startswith(f"{place}/") for place in places)


def _build_public_problem(store: Store, problem: Problem) -> Problem:
    """Return the problem with its path for display; a path with a secret is cut to its folder."""
    path = problem.path
    if secrets.find_secrets(path):
        path = posixpath.dirname(path)
    return problem._replace(path=store.to_display_path(path))


def _iter_settings_problems(store: Store) -> Iterator[Problem]:
    """Yield a problem for each setting that is ignored."""
    messages = [store.config.read_error]
    messages += store.config.unknown_settings
    for message in messages:
        if message:
            yield Problem(
                REPOSITORY_FILE, line=1, code="settings", level="warning", message=message
            )


def list_new_problems(before: Snapshot, after: Snapshot) -> list[Problem]:
    """List the problems of a merge that its base has not, and files that Git cannot merge."""
    message = "both sides changed it, and Git cannot merge the two: merge the base into this branch"
    conflict_paths = _find_conflict_paths(after)
    problems = []
    for path in sorted(conflict_paths):
        problem = Problem(path, line=1, code="merge-conflict", level="warning", message=message)
        problems.append(problem)
    old_counts = Counter(finding.key for finding in list_findings(before))
    for finding in list_findings(after):
        old_counts[finding.key] -= 1
        if old_counts[finding.key] < 0 and finding.problem.path not in conflict_paths:
            problems += _iter_new_problem(finding, before, after)
    return problems


def _find_conflict_paths(merge: Snapshot) -> set[str]:
    """Find the records that Git cannot merge."""
    files = merge.store.files
    work_tree_paths = [conflict.path for conflict in merge.conflicts]
    return {files.to_store_path(path) for path in work_tree_paths if files.is_in_store(path)}


def _iter_new_problem(finding: Finding, before: Snapshot, after: Snapshot) -> Iterator[Problem]:
    """Yield a new problem of a merge as a review shows it; none for a fork that was wider."""
    problem = finding.problem
    if problem.code == "same-number":  # the merge would use the number twice
        yield problem._replace(level="warning")
    elif problem.code != "forked-topic":
        yield problem
    elif not is_fork_eased(before.graph, after.graph, finding.subject):
        heads = after.graph.get_chain(finding.subject).heads
        # A review shows the files that the branch adds.
        new_heads = [head for head in heads if head not in before.nodes]
        shown_head = new_heads[-1] if new_heads else heads[-1]
        yield problem._replace(path=after.records_by_id[shown_head].path)


def list_findings(snapshot: Snapshot) -> list[Finding]:
    """List all problems of the records of a snapshot and of the files beside them."""
    findings = [Finding(problem, subject=problem.path) for problem in snapshot.scan_problems]
    findings += _iter_record_findings(snapshot)
    findings += _iter_unknown_statuses(snapshot)
    findings += _iter_cross_findings(snapshot)
    findings += _iter_other_files(snapshot)
    findings += _iter_bad_names(snapshot)
    return findings


def _iter_record_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield problems of single records."""
    for path, data in snapshot.data.items():
        if len(data) > MAX_SIZE:
            text = f"larger than {MAX_SIZE} bytes: not read"
            yield _build_finding(path, path, code="too-large", level="error", message=text)
    for path, parsed in snapshot.parsed_files.items():
        yield from _iter_parser_findings(snapshot, path, parsed)
        record = parsed.record
        if record and path not in snapshot.records:
            text = (
                f"{record.id} was forgotten, so it is hidden: "
                "remove the file, or filemem restore it"
            )
            yield _build_finding(path, record.id, code="forgotten", level="warning", message=text)
    yield from _iter_future_dates(snapshot)


def _iter_parser_findings(snapshot: Snapshot, path: str, parsed: ParsedRecord) -> Iterator[Finding]:
    """Yield the problems of a file that its parser reports, except unknown statuses."""
    subject = parsed.record.id if parsed.record else path
    for problem in parsed.problems:
        if problem.code == UNKNOWN_STATUS:
            continue
        detail = ""
        if problem.code == "secret":
            detail = _get_line(snapshot, problem)
        yield Finding(problem, subject, detail)


def _get_line(snapshot: Snapshot, problem: Problem) -> str:
    """Return the line of the file that a problem is about, or ""."""
    text = snapshot.data[problem.path].decode(errors="replace")
    lines = text.splitlines()
    if problem.line > len(lines):
        return ""
    return lines[problem.line - 1].strip()


def _iter_future_dates(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield dates in the future."""
    limit = snapshot.store.clock() + DAY
    for path, record in snapshot.records.items():
        dates = [(outcome.at, "future-outcome", "outcome of") for outcome in record.outcomes]
        dates.append((snapshot.dates[path], "future-created", "date,"))
        for time, code, label in dates:
            if time <= limit:
                continue
            date = format_time(time)[:10]
            text = f"its {label} {date} is in the future, so it counts as the newest: correct it"
            yield _build_finding(path, record.id, code=code, level="warning", message=text)


def _iter_unknown_statuses(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield unknown statuses, each word once."""
    by_message: dict[str, list[Problem]] = defaultdict(list)
    for parsed in snapshot.parsed_files.values():
        for problem in parsed.problems:
            if problem.code == UNKNOWN_STATUS:
                by_message[problem.message.casefold()].append(problem)
    for message, problems in by_message.items():
        first = problems[0]
        text = first.message
        if len(problems) > 1:
            text += f" (and in {len(problems) - 1} more)"
        word = message.partition(": ")[2]
        text += f"; to explain it, write under [status] in {REPOSITORY_FILE}: "
        text += f'{word} = "proposed"'
        yield Finding(first._replace(message=text), subject="", detail=message)


def _iter_cross_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield problems across files: ids used twice, broken links, cycles, forks."""
    yield from _iter_duplicate_ids(snapshot)
    yield from _iter_shared_numbers(snapshot)
    for flaw in snapshot.graph.problems:
        path = snapshot.records_by_id[flaw.node].path
        yield _build_finding(
            path, flaw.node, code=flaw.code, level=flaw.level, message=flaw.message
        )
    yield from _iter_dangling_edges(snapshot)
    yield from _iter_forks(snapshot)


def _iter_dangling_edges(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield edges to missing records that were not forgotten."""
    for node in snapshot.nodes.values():
        for kind, target, _ in node.edges:
            if target not in snapshot.missing_references or snapshot.is_forgotten(target):
                continue
            text = f"{kind} {target}: it matches no record, or several"
            yield _build_finding(
                node.path, node.id, code="dangling-edge", level="warning", message=text
            )


def _iter_duplicate_ids(snapshot: Snapshot) -> Iterator[Finding]:
    for path, record in snapshot.records.items():
        first = snapshot.records_by_id[record.id].path
        if first == path:
            continue
        text = (
            f"the id {record.id} is also that of {snapshot.store.to_display_path(first)}, "
            "which is shown: give this file its own id"
        )
        yield _build_finding(
            path, path, code="duplicate-id", level="error", message=text, detail=record.id
        )


def _iter_forks(snapshot: Snapshot) -> Iterator[Finding]:
    for key, chain in snapshot.graph.chains.items():
        if not chain.is_forked:
            continue
        heads = [snapshot.records_by_id[head] for head in chain.heads]
        paths = [snapshot.store.to_display_path(head.path) for head in heads]
        newest = heads[-1]
        text = (
            f"{newest.topic} is forked: {', '.join(paths)} hold at once; "
            f"filemem resolve {shlex.quote(newest.topic)} "
            "--decision ... --reasoning ... ends it"
        )
        yield _build_finding(
            newest.path,
            subject=key,
            code="forked-topic",
            level="warning",
            message=text,
            detail=" ".join(sorted(chain.heads)),
        )


def _iter_shared_numbers(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield ADR numbers that two files of a folder share, as happens on two branches."""
    by_number: dict[tuple[str, int], list[str]] = defaultdict(list)
    for path, record in sorted(snapshot.records.items()):
        number = parse_adr_number(path, record.id)
        if number is not None:
            folder = posixpath.dirname(path)
            by_number[folder, number].append(path)
    for (_, number), paths in by_number.items():
        if len(paths) < 2:
            continue
        shown_paths = [snapshot.store.to_display_path(path) for path in paths]
        taken_by = " and ".join(shown_paths)
        text = f"the number {number} is taken by {taken_by}: filemem renumber {number}"
        last_path = paths[-1]
        yield _build_finding(last_path, last_path, code="same-number", level="hint", message=text)


def _iter_other_files(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield problems of files that are not records, and private files that Git tracks."""
    for path, oid in snapshot.files.items():
        if path in snapshot.untracked_paths:
            continue
        if _is_for_one_clone(snapshot, path):
            text = (
                "is private, and Git has it: "
                "git rm --cached it, and purge it from history if it was pushed"
            )
            yield _build_finding(path, path, code="private-committed", level="error", message=text)
        if is_listed(path):
            continue
        for problem in lint.lint_other_file(_read_blob(snapshot, oid), path):
            yield Finding(problem, subject=path)
    yield from _iter_synonym_findings(snapshot)


def _read_blob(snapshot: Snapshot, oid: str) -> bytes:
    """Read a file of a snapshot; b"" if it is missing or too large."""
    return snapshot.store.repo.read_blob(oid, max_size=MAX_SIZE) or b""


def _iter_synonym_findings(snapshot: Snapshot) -> Iterator[Finding]:
    synonyms = snapshot.store.synonyms
    if not snapshot.is_on_disk:
        oid = snapshot.files.get(SYNONYMS, "")
        synonyms = _read_blob(snapshot, oid).decode(errors="replace")
    for number, message, line in _iter_malformed_lines(synonyms):
        problem = Problem(SYNONYMS, number, code="synonyms", level="warning", message=message)
        yield Finding(problem, subject=SYNONYMS, detail=line)


def _iter_malformed_lines(synonyms: str) -> Iterator[tuple[int, str, str]]:
    """Yield ignored lines of a list of synonyms: the number, the problem and the line."""
    lines = synonyms.splitlines()
    malformed_numbers = parse_groups(synonyms)[1]
    for number in malformed_numbers:
        message = "is no group of synonyms: write it like `auth | sign in > oauth, saml`"
        yield number, message, lines[number - 1]
    if len(lines) > MAX_LINES or len(synonyms) > MAX_LIST_SIZE:
        message = f"is read up to {MAX_LINES} lines and {MAX_LIST_SIZE:,} characters"
        yield min(len(lines), MAX_LINES), message, ""


def _is_for_one_clone(snapshot: Snapshot, path: str) -> bool:
    """Return whether a file is private: by its record, or by the folder that it is in."""
    record = snapshot.records.get(path)
    if record is not None and record.visibility == "private":
        return True
    name = posixpath.basename(path)
    return is_private(path) and not name.startswith(".")


def _iter_bad_names(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield file names that mislead readers, are not read, or look like secrets."""
    paths = sorted(snapshot.files)
    for path in _list_with_folders(paths):
        hidden = find_hidden_characters(posixpath.basename(path))
        if hidden:
            printable_path = path.encode("utf-8", "backslashreplace").decode()
            text = f"its name holds {describe_character(hidden)}: rename it"
            yield _build_finding(
                printable_path, path, code="hidden-character", level="warning", message=text
            )
        elif _is_passed_over(snapshot, path):
            folder = posixpath.dirname(path)
            text = (
                "holds a file whose name has control characters or is of Git's own: it is not read"
            )
            yield _build_finding(folder, path, code="file-name", level="error", message=text)
    for secret in secrets.find_secrets("\n".join(paths)):
        path = paths[secret.line - 1]
        folder = posixpath.dirname(path)
        text = (
            f"the name of a file in here looks like a secret ({secret.kind}): "
            "rename it, and revoke it"
        )
        yield _build_finding(folder, path, code="secret", level="error", message=text)


def _list_with_folders(paths: Iterable[str]) -> list[str]:
    """List the paths and all folders above them, sorted."""
    all_paths = set()
    for path in paths:
        place = path
        while place and place not in all_paths:
            all_paths.add(place)
            place = place.rpartition("/")[0]
    return sorted(all_paths)


def _is_passed_over(snapshot: Snapshot, path: str) -> bool:
    """Return whether a commit has this record under a name that is not read."""
    is_committed_file = path in snapshot.files and not snapshot.is_on_disk
    return is_committed_file and is_record(path) and not is_listed(path)


def _iter_obstacles(store: Store, snapshot: Snapshot) -> Iterator[Problem]:
    """Yield obstacles to reading or committing the records of the work tree."""
    obstacle = store.find_obstacle()
    if store.repo.list_sparse_files(store.files.store):
        level = "hint" if snapshot.records else "error"
        yield Problem("", line=1, code="sparse-checkout", level=level, message=obstacle)
    elif obstacle:
        yield Problem("", line=1, code="store-missing", level="error", message=obstacle)
    if not obstacle:
        for path in snapshot.lost_paths:
            restore = f"git restore {store.to_display_path(path)}"
            text = f"Git has it and the work tree does not: {restore}, or commit its removal"
            yield Problem(path, line=1, code="record-missing", level="warning", message=text)
    example_paths = [store.files.to_work_tree_path(path) for path in _SAVED_EXAMPLES]
    ignored = store.repo.find_ignored(*example_paths)
    if ignored:
        text = f"what is saved here stays uncommitted: Git ignores {ignored}"
        yield Problem("", line=1, code="ignored", level="hint", message=text)
