"""A commit on top of HEAD, brought to the disk before any lock is taken, and the files that go with it.

A file that is not ours to commit is found here, and one that has edits of the user's is refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from filemem.errors import BadInput, Conflict, NotFound
from filemem.repo.journal import Edit, Entry, Message
from filemem.repo.objects import Loose, publish, together
from filemem.repo.run import GitError, hooked
from filemem.repo.state import Head

if TYPE_CHECKING:
    from filemem.repo import Repo

_SUBJECT, _VALUE = 120, 400  # characters of a commit message kept
_KEY = re.compile(r"[A-Za-z][A-Za-z-]{0,40}")
_SIGNING = 60.0  # seconds; a passphrase may have to be typed
_FIRST = "commit or undo them first"


class Plan(NamedTuple):
    """One commit to be made: what it does to which files, what it says, when (epoch ms)."""

    edits: tuple[Edit, ...]
    message: Message
    at: int


class Placing(Protocol):
    """A file written aside; see `filemem.files.Staged`."""

    def sync(self) -> None: ...
    def publish(self, replace: bytes | None) -> None: ...
    def sync_folders(self) -> None: ...
    def discard(self) -> None: ...


class Placer(Protocol):
    """The files of the store; see `filemem.files.Files`."""

    def inside(self, path: str) -> str: ...
    def read(self, path: str) -> bytes: ...
    def stage(self, path: str, data: bytes) -> Placing: ...
    def remove(self, path: str, only: bytes | None = None) -> None: ...


Places = Sequence[tuple[Edit, Placing | None]]  # files written aside; None for one that is to be removed


class Target(NamedTuple):
    """An edit, what a commit holds for it then, as bytes and blob id, and what it held before; "" for nothing."""

    edit: Edit
    data: bytes | None
    blob: str
    old: str


class Draft(NamedTuple):
    """A commit on top of HEAD, on disk but for the branch, and the files that are not in their places yet.

    `readable`: the files will be, byte for byte, what is committed, so that Git may read them for the index.
    """

    head: Head
    entry: Entry
    objects: tuple[Loose, ...]
    places: Places
    readable: bool


def targets_of(repo: Repo, edits: Iterable[Edit], head: Head) -> tuple[Target, ...]:
    """What a commit on top of HEAD would hold for each edit."""
    found = []
    for edit in edits:
        item = repo.item_at(head.tip, edit.path)
        old = item.oid if item else ""
        data = None if edit.data is None else repo.committed(edit.path, edit.data, old)
        found.append(Target(edit, data, "" if data is None else repo.blob_id(data), old))
    return tuple(found)


def not_ours(repo: Repo, targets: Iterable[Target], head: Head) -> str:
    """Why files are not ours to commit, or ""."""
    if not head.ref:
        return "HEAD is detached: `git switch` to a branch, then commit it"
    for edit, _, _, old in targets:
        if not old and (rule := repo.ignored(edit.path)):
            return f"Git ignores {edit.path} ({rule})"
        if not old and edit.before is not None and edit.data is not None:
            return f"{edit.path} was never committed; commit it with Git"
        if obstacle := repo.obstacle(edit.path):
            return obstacle
    return ""


def refuse_edited(repo: Repo, targets: Sequence[Target]) -> None:
    """Refuse to change a file that has uncommitted edits, or that a sparse checkout hides. Raises Conflict."""
    staged = repo.staged([target.edit.path for target in targets if target.old])
    hidden = repo.hidden(".") if staged else ()
    for edit, _, blob, old in targets:
        if edit.path in hidden:
            raise Conflict(f"a sparse checkout hides {edit.path}", "`git sparse-checkout add` its folder first")
        if edit.before is None:
            if old not in ("", blob):
                raise Conflict(f"{edit.path} was removed, and that is not committed", _FIRST)
        elif not old:
            raise Conflict(f"{edit.path} was never committed, so nothing would keep it", "commit it first")
        elif staged.get(edit.path) != old or old not in (
            repo.blob_id(edit.before),
            repo.blob_id(repo.committed(edit.path, edit.before, old)),
        ):
            raise Conflict(f"{edit.path} has edits that are not committed", _FIRST)


def prepare(
    repo: Repo, files: Placer, plan: Plan, head: Head, targets: Sequence[Target], interrupted: Entry | None = None
) -> Draft:
    """Bring a commit on top of HEAD to the disk, with its entry in the journal and the files aside."""
    objects, tip = repo.objects, repo.objects.read(head.tip) if head.tip else None
    changes = {target.edit.path: target.blob or None for target in targets}
    tree, trees = objects.splice(tip.tree if tip else None, changes)
    parents, text = (head.tip,) if head.tip else (), _text(*plan.message)
    signs = repo.settings.signing is not None
    made = [objects.prepare("blob", target.data) for target in targets if target.data is not None]
    made += [objects.prepare("tree", data) for data in trees]
    places: Places = ()
    name = repo.journal.name(plan.at) if interrupted is None else interrupted.file
    try:
        if repo.run_hooks or signs:  # both read the tree
            publish(made)
        if repo.run_hooks:
            text = hooked(repo.git, repo.settings.text("core.hookspath"), tree, text)
        if not signs:
            made.append(objects.prepare("commit", _commit(repo, tree, parents, text, plan.at)))
        commit = commit_tree(repo, tree, parents, text, plan.at) if signs else made[-1].oid
        missing = [edit for edit in plan.edits if interrupted is None or on_disk(files, edit.path) is None]
        places = _aside(files, missing)
        blobs, olds = (tuple(getattr(target, name) for target in targets) for name in ("blob", "old"))
        own = repo.journal.worktree
        entry = Entry(own, head.ref, commit, plan.message, plan.edits, plan.at, blobs, olds, "", name)
        publish(made, partial(repo.journal.write, entry), *(each.sync for _, each in places if each is not None))
    except BaseException:
        discard(places)
        if interrupted is None:
            name.unlink(missing_ok=True)
        raise
    plain = all(b"\r\n" not in (edit.data or b"") for edit in plan.edits)  # else Git would convert what it reads
    readable = plain and interrupted is None and repo.settings.unfiltered is not None
    return Draft(head, entry, tuple(made), places, readable)


# files


def write(files: Placer, edits: Sequence[Edit]) -> None:
    """Change files without a commit: all of them, or none."""
    places, placed = _aside(files, edits), list[Edit]()
    try:
        together([staged.sync for _, staged in places if staged is not None])
        place(files, places, placed)
        together([staged.sync_folders for _, staged in places if staged is not None])
    except BaseException:
        unplace(files, placed)
        raise
    finally:
        discard(places)


def _aside(files: Placer, edits: Iterable[Edit]) -> Places:
    places: list[tuple[Edit, Placing | None]] = []
    try:
        for edit in edits:
            data = edit.data
            places.append((edit, None if data is None else files.stage(files.inside(edit.path), data)))
    except BaseException:
        discard(places)
        raise
    return tuple(places)


def place(files: Placer, places: Places, placed: list[Edit]) -> None:
    """Put files into their places, and note each in `placed`."""
    for edit, staged in places:
        if staged is not None:
            staged.publish(edit.before)
        else:
            files.remove(files.inside(edit.path), edit.before)
        placed.append(edit)


def unplace(files: Placer, edits: Iterable[Edit]) -> None:
    """Make files what they were, where they still hold what we wrote."""
    for path, data, before in edits:
        with suppress(Conflict, NotFound, BadInput):
            put_file(files, path, before, data)


def put_file(files: Placer, path: str, data: bytes | None, replace: bytes | None) -> None:
    """Write a file where it holds `replace`, or remove it. Raises Conflict."""
    if data is None:
        files.remove(files.inside(path), replace)
        return
    staged = files.stage(files.inside(path), data)
    try:
        staged.sync()
        staged.publish(replace)
        staged.sync_folders()
    finally:
        staged.discard()


def on_disk(files: Placer, path: str) -> bytes | None:
    """The bytes of a file; None where there is none."""
    try:
        return files.read(files.inside(path))
    except NotFound:
        return None


def discard(places: Places) -> None:
    """Let go of files written aside."""
    for _, staged in places:
        if staged is not None:
            staged.discard()


# the commit


def _text(subject: str, trailers: Iterable[tuple[str, str]]) -> str:
    """What a commit says: one subject line and one row of trailers, whatever callers put into them."""
    rows = [f"{key}: {text}\n" for key, value in trailers if _KEY.fullmatch(key) and (text := _line(value, _VALUE))]
    head = f"{_line(subject, _SUBJECT) or 'record'}\n"
    return "\n".join((head, "".join(rows))) if rows else head


def _line(text: str, limit: int) -> str:
    kept = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 8]).split())
    return kept if len(kept) <= limit else kept[: limit - 3].rstrip() + "..."


def _time(at: int) -> str:
    """Seconds and local offset, as Git writes them."""
    seconds = max(0, at // 1000)  # Git knows no time before 1970
    offset = time.localtime(seconds).tm_gmtoff // 60
    return f"{seconds} {'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"


def _commit(repo: Repo, tree: str, parents: Iterable[str], text: str, at: int) -> bytes:
    """A commit object."""
    author, committer = repo.identity()
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {author} {_time(at)}", f"committer {committer} {_time(at)}", "", text]
    return "\n".join(lines).encode("utf-8", "replace")


def commit_tree(repo: Repo, tree: str, parents: Sequence[str], text: str, at: int) -> str:
    """Have Git make a commit of a tree, signed where the user's configuration says so; no branch moves.

    Args:
        repo: the repository.
        tree: its files.
        parents: what it goes on from; of a merge, ours first.
        text: its message.
        at: epoch milliseconds.

    Raises:
        BadInput: Git does not know who commits.
        Conflict: it could not be made or signed.
    """
    signing = repo.settings.signing
    roles = zip(("AUTHOR", "COMMITTER"), repo.identity(), strict=True)
    who = {f"GIT_{role}_{part.upper()}": getattr(one, part) for role, one in roles for part in ("name", "email")}
    dates = {"GIT_AUTHOR_DATE": _time(at), "GIT_COMMITTER_DATE": _time(at)}
    asked = [*(() if signing is None else ("-S",)), *(part for parent in parents for part in ("-p", parent)), tree]
    config, data = (*(signing or ()), "i18n.commitEncoding=utf-8"), text.encode("utf-8", "replace")
    try:
        made = repo.git.run("commit-tree", *asked, input=data, limit=_SIGNING, config=config, extra={**who, **dates})
    except GitError as error:
        raise Conflict(f"the commit could not be signed: {error.message}", "check your signing key") from None
    return made.decode().strip()
