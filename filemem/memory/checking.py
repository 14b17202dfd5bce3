"""What is wrong with the records, or with what a branch brings to them: read afresh, the index is not asked."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Iterator

from filemem import secrets
from filemem.changes import Manifest
from filemem.errors import BadInput, NotFound
from filemem.memory import astray, merged, moments, obstacles, overlooking, reviewing, uncommitted
from filemem.memory.identities import landing
from filemem.memory.merging import merging, states
from filemem.memory.moves import carried
from filemem.memory.origins import origins
from filemem.memory.store import Store
from filemem.memory.surveying import State, Surveyor
from filemem.record import Problem
from filemem.repo.revisions import Moment


def check(
    store: Store, paths: Iterable[str], base: str = "", *, drift: bool = False
) -> tuple[int, tuple[Problem, ...]]:
    """Read every record and say what is wrong.

    Args:
        store: the parts.
        paths: report only these files or folders (store-relative or below the work tree); all where none is given.
        base: report only what merging this branch into that revision would bring; everything where it is empty, or a
            date before the first commit.
        drift: tell also of governed code that changed but is not largely rewritten, as hints.

    Returns:
        How many files were read, and the problems, the worst first, then by path and line.

    Raises:
        Conflict: this branch has no history in common with `base`.
        NotFound: a path that holds no record, or no such revision.
    """
    manifest, skipped = store.files.scan({}, hash_name=store.repo.hash_name)
    now = _now(store, manifest)
    against = _against(store, base)
    problems = list(_brought(store, against, now, skipped, drift) if against else _wrong(store, now, skipped, drift))
    if unseen := obstacles.unseen(store):
        problems.append(Problem("", 1, "sparse-checkout", "hint" if manifest or against else "error", unseen))
    elif missing := obstacles.unfilled(store) or obstacles.gone(store):
        problems.append(Problem("", 1, "store-missing", "error", missing))
    if not against and (stray := astray.of(store)):
        problems.append(Problem("", 1, "stray-record", "hint", str(stray)))
    known = {*manifest, *now.tracked} if paths else ()
    wanted = [_relative(store, path, known) for path in paths]
    shown = [p for p in problems if not wanted or any(p.path == w or p.path.startswith(f"{w}/") for w in wanted)]
    named = [problem._replace(path=store.shown(_printable(problem.path))) for problem in shown]
    return len(manifest), tuple(sorted(set(named), key=lambda problem: problem.order))


def _against(store: Store, base: str) -> Moment | None:
    """What is merged into; None where everything counts: none is named, or there was nothing then."""
    found = moments.find(store, base, "base", begins=True) if base else None
    return found if found and found.commit != store.repo.nothing else None


def _wrong(store: Store, now: State, skipped: Iterable[Problem], drift: bool) -> Iterator[Problem]:
    """What is wrong with the memory as it stands."""
    read = Surveyor(store, now.data.keys()).survey(now)
    yield from skipped
    yield from (finding.problem for finding in read.findings)
    yield from reviewing.problems(store, read, None, drift)
    yield from overlooking.problems(store, now.data, None)
    for path, command in uncommitted.gone(store, now.data).items():
        text = f"HEAD has it and the work tree does not: {command}, or commit that it is removed"
        yield Problem(path, 1, "record-missing", "warning", text)


def _brought(store: Store, base: Moment, now: State, skipped: Iterable[Problem], drift: bool) -> Iterator[Problem]:
    """What merging this branch into another would make worse."""
    with merging(store, base, now) as merge:
        yield from merge.clashes
        yield from (problem for problem in skipped if problem.path in merge.records | {""})
        survey = Surveyor(merge.store, now.data.keys(), merge.records).survey
        before, after = map(survey, states(merge, now))
        told = [*reviewing.problems(store, survey(now), merge, drift), *merged.worse(before, after)]
        yield from told
        yield from merged.lapsed(before, after)
        yield from merged.reworded(before, after, told)
        yield from overlooking.problems(store, now.data, merge)
        yield from overlooking.hidden(store, merge)


def _relative(store: Store, path: str, manifest: Iterable[str]) -> str:
    inside = store.asked(path.strip("/")) if path.strip("/") != store.name else ""
    if inside and not any(known == inside or known.startswith(f"{inside}/") for known in manifest):
        raise NotFound(f"{path}: no record there", f"name a file or folder below {store.name}/")
    return inside


def _printable(path: str) -> str:
    """A path without a name that looks like a secret."""
    return posixpath.dirname(path) if secrets.find(path) else path


def _now(store: Store, manifest: Manifest) -> State:
    """The memory as it stands in the work tree."""
    data: dict[str, bytes] = {}
    for path in manifest:
        with contextlib.suppress(NotFound, BadInput):  # deleted, and the commit waits; or changed since the look
            data[path] = store.bytes_of(path)
    tracked = {store.files.inside(path): blob for path, blob in store.repo.index.entries([store.files.store]).items()}
    past = origins(store)
    new = {path: entry.blob for path, entry in manifest.items() if path not in past.births}
    past.births.update(carried(store, new, manifest, known=past))
    return State(data, tracked, past, store.tombstones, landing(store, store.history))
