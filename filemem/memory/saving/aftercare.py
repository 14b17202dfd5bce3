"""Looking after commits that are already made: what a gc or a command that raced with a save did to them.

A user's `git commit` reads the index before it locks it, so it can drop or revert a path that we committed meanwhile; a
merge, a stash or a reset that had read HEAD before puts index and files back to what that was. Where they left a trace
of it (`repo/races`), the path is brought back. A record that went in any other way stays out: that was the user.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from filemem.errors import FilememError, told
from filemem.memory.saving.work import Work
from filemem.repo import MERGING, Change, Entry, Made, Message, NotNow, Repo
from filemem.repo.journal import KEEP, SETTLES

RACE = 2.0  # seconds after our commit in which an index without our path may have been written by one who knew it not
WINDOW = 10.0  # seconds between our commit and what a merge did that noted to have begun from the one before
COARSE = 0.01  # seconds that a file's time may lag behind the clock
PATIENCE, PAUSE = 1.0, 0.02  # seconds that a save waits at its end for a command at work; between two looks for it
STILL = 0.1  # seconds between seeing an index without our path and believing it


def heal(work: Work, thorough: bool) -> list[str]:
    """Put back objects that a gc took which had begun before our commit was made."""
    recent = work.repo.journal.recent(time.time(), KEEP if thorough else SETTLES)
    bereft = [entry for _, entry in recent if not all(map(work.repo.objects.has, entry.oids))]
    count = sum(work.repo.objects.heal(entry.objects()) for entry in bereft)
    return [f"wrote {count} missing Git objects again"] if count else []


def recheck(work: Work, *, index_only: bool) -> list[str]:
    """Look whether a command that raced with a save dropped or reverted its path, in HEAD, in the index or on disk.

    Args:
        work: tools of the saver.
        index_only: make no commits; while the user merges, only what their merge commit would drop is put right.
    """
    repo, now = work.repo, time.time()
    limit = repo.journal.unsettled(now)
    if limit < 0:
        return []
    latest = _in_danger(work, now, limit)
    repaired = []
    whole: dict[str, Entry] = {}
    for path, entry in latest.items():
        item = repo.item(path)
        current = item.oid if item else ""
        if current == entry.marks["blob"]:
            whole[path] = entry
        elif not index_only and current in ("", entry.operation.old) and (why := _taken_by(work, entry)):
            _bring_files(work, entry)
            _commit_again(work, entry, current)
            repaired.append(f"committed {path} again: {why}")
    lost = _lost(work, whole)
    if lost:
        # A checkout takes the file, then the entry, then moves HEAD: what it took must have time to show as taken.
        time.sleep(STILL)
        if repo.mover():
            return repaired
        repaired += _put_back(work, lost)
    if not index_only:
        repo.journal.looked(now)
    return repaired


def settle(work: Work, made: Made, changes: Sequence[Change]) -> str:
    """At the end of a save, put right what a command that ran meanwhile did to the index; says what failed, or "".

    Nobody may look at it later: a one-shot command ends, and the next commit of the user's would undo the save.
    """
    if made.trouble or not made.here:
        return made.trouble
    try:
        if work.repo.index.shows(changes):
            return ""
        stop = time.monotonic() + PATIENCE
        while work.repo.mover() and time.monotonic() < stop:
            time.sleep(PAUSE)
        reason = work.gate() or work.repo.leftovers.in_the_way()
        if not reason or reason == MERGING:
            recheck(work, index_only=bool(reason))
    except (FilememError, OSError) as error:
        return f"committed, but the index could not be looked after: {told(error)}"
    return ""


def _put_back(work: Work, lost: Mapping[str, Entry]) -> list[str]:
    """Put paths that HEAD holds back into the index, and their files where they are gone."""
    lost = _lost(work, {path: entry for path, entry in lost.items() if _holds(work.repo, entry)})
    for entry in lost.values():
        _bring_back(work, entry)
    return [f"put {path} back into the index" for path in lost]


def restage(work: Work, entry: Entry) -> None:
    """Put back what an entry brought where HEAD still holds it, and the index what there was before.

    For an operation that never ended: nobody was told of it, so nobody took it out on purpose.
    """
    path = entry.operation.path
    if "blob" in entry.marks and _holds(work.repo, entry):
        staged = work.repo.index.entries([path]).get(path, "")
        if staged != entry.marks["blob"] and staged == entry.operation.old:
            _bring_back(work, entry)


def _bring_back(work: Work, entry: Entry) -> None:
    """Let files and index hold what HEAD holds of an entry."""
    _bring_files(work, entry)
    items = {name: work.repo.item(name) for name in (entry.operation.path, entry.operation.tombstone) if name}
    work.repo.index.repair({name: (item.mode.decode(), item.oid) if item else None for name, item in items.items()})


def _bring_files(work: Work, entry: Entry) -> None:
    """Let the files be as an entry left them; one that was edited since stays."""
    path = work.in_store(entry.operation.path)
    if _as_before(work, entry):
        work.files.remove(path) if entry.data is None else work.files.write(path, entry.data)
    work.mark(entry.operation)


def _taken_by(work: Work, entry: Entry) -> str:
    """What took a change out of HEAD without knowing of it; "" where that was the user, for all that can be told."""
    repo = work.repo
    if _stands(work, entry):
        raced = _raced(work, entry) or _undone(repo, entry)
        return "what raced with it had dropped it" if raced else ""
    swept = _as_before(work, entry) and _undone(repo, entry)
    return "a reset that raced with it had swept it away" if swept else ""


def _in_danger(work: Work, now: float, limit: float) -> dict[str, Entry]:
    """The last finished operation on each path, where it is no older than a limit and nothing waits for it."""
    recent = work.repo.journal.recent(now, limit)
    latest = {e.operation.path: e for _, e in recent if "blob" in e.marks and work.mine(e)}
    for entry in work.repo.journal.entries():
        latest.pop(entry.operation.path, None)
    return latest


def _lost(work: Work, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Those whose change the index lacks, and may lack because it was read before we made it and written after."""
    index = work.repo.index.entries(list(entries))
    lacking = {path: e for path, e in entries.items() if index.get(path, "") != e.marks["blob"]}
    written = work.repo.index.written()
    return {
        path: entry
        for path, entry in lacking.items()
        if index.get(path, "") in ("", entry.operation.old)
        and (
            (_stands(work, entry) and written < _moved_at(entry) + RACE)
            or ((_stands(work, entry) or _as_before(work, entry)) and _overrun(work, entry, written))
        )
    }


def _overrun(work: Work, entry: Entry, written: float) -> bool:
    """Whether a merge or reset that had read HEAD before ours put index and files to what that had been.

    `git rm` leaves the same behind. But it changes one entry, where these read whole trees; and who merged while we
    saved, from the commit before ours, had not seen what there was to remove.
    """
    began, moved = _overtaken(work.repo, entry), _moved_at(entry)
    if written > moved + (WINDOW if began else RACE):
        return False
    meanwhile = began + COARSE >= int(entry.marks.get("index", 0)) / 1000
    return (bool(began) and meanwhile) or work.repo.races.read_from_a_tree(entry.operation.path)


def _overtaken(repo: Repo, entry: Entry) -> float:
    """When a merge or reset began that had read HEAD just before ours was made; 0.0 for none."""
    began = repo.races.began_from(_before(repo, entry))
    return began if abs(began - _moved_at(entry)) <= WINDOW else 0.0


def _before(repo: Repo, entry: Entry) -> set[str]:
    """The commits that HEAD was at before ours: its parent, and those that lead there through our own alone."""
    recent = (each.marks for _, each in repo.journal.recent(time.time(), KEEP))
    parents = {marks["commit"]: marks["parent"] for marks in recent if "commit" in marks and "parent" in marks}
    found, commit = set(), entry.marks.get("parent", "")
    while commit and commit not in found:
        found.add(commit)
        commit = parents.get(commit, "")
    return found


def _holds(repo: Repo, entry: Entry) -> bool:
    """Whether HEAD holds what the entry brought."""
    item = repo.item(entry.operation.path)
    return (item.oid if item else "") == entry.marks["blob"]


def _raced(work: Work, entry: Entry) -> bool:
    """Whether the commit that dropped a path was made of an index that was read too early to know ours.

    A commit begun later than such an index may have been written dropped it on purpose, unless it is a merge that had
    begun before: the user may have concluded that much later. Git tells a commit's time in seconds, as it began.
    """
    ours = entry.marks.get("commit", "")
    if not ours or not work.repo.history.is_ancestor(ours):
        return False
    drop = work.repo.races.dropped(entry.operation.path, since=ours)
    if drop is None:
        return False
    return drop.began <= int(_moved_at(entry) + RACE) or (drop.merge and bool(_overtaken(work.repo, entry)))


def _undone(repo: Repo, entry: Entry) -> bool:
    """Whether `git stash` or a reset to HEAD undid a save: it reads HEAD first and moves it back unconditionally."""
    return repo.races.undone(entry.marks.get("commit", ""))


def _moved_at(entry: Entry) -> float:
    """When our commit became HEAD, in seconds since the epoch."""
    return int(entry.marks.get("ref", 0)) / 1000


def _stands(work: Work, entry: Entry) -> bool:
    """Whether the file is as the entry left it."""
    disk = work.on_disk(work.in_store(entry.operation.path))
    if disk is None or entry.data is None:
        return disk is None and entry.data is None
    return disk == entry.data


def _as_before(work: Work, entry: Entry) -> bool:
    """Whether a file is as it was before an entry: gone, or the version that was replaced or removed."""
    disk, operation = work.on_disk(work.in_store(entry.operation.path)), entry.operation
    if disk is None:
        return entry.data is not None
    return work.repo.blob_id(disk) in (operation.old, operation.seen)


def _commit_again(work: Work, entry: Entry, current: str) -> None:
    operation, blob = entry.operation, entry.marks["blob"]
    again = work.repo.journal.open(operation._replace(at=work.clock(), old=current), entry.data)
    if blob in entry.oids:
        work.repo.objects.heal({blob: entry.objects()[blob]})
    with work.landed(again, None) as landed:
        change = Change(operation.path, blob or None, current, before=current or None)
        whole = landed._replace(also=work.marked(operation))
        try:
            work.commit([again], [change], Message(operation.subject, operation.trailers), whole)
        except NotNow as wait:
            work.wait(again, wait.reason, landed)
    entry.file.unlink(missing_ok=True)
