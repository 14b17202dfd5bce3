"""Attaching the branch that holds a project's records alone, from here or from the other side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.errors import BrokenStore, NotFound
from filemem.memory import home
from filemem.repo import Change, Message, NotNow, Plan, Remote, Repo, publish

if TYPE_CHECKING:
    from filemem.repo.remote import Tell

_PATIENCE = 10.0  # seconds to wait for another process that saves


def attach(
    code: Repo,
    name: str,
    branch: str,
    files: Mapping[str, bytes] | None,
    at: int,
    tell: Tell | None = None,
    announce: Callable[[], None] = lambda: None,
) -> str:
    """Attach a work tree of its own for the records, from the branch that holds them here or on the other side.

    Args:
        code: the repository of the project.
        name: the folder, from the top of its work tree.
        branch: the branch.
        files: what a new branch begins with; None where there must be one already.
        at: when a new branch begins, in epoch milliseconds.
        tell: told what Git says of its progress.
        announce: called when the branch is there and its work tree is about to be made: from then on no save may go
            anywhere else, also where this dies.

    Returns:
        What was done, in words.

    Raises:
        NotFound: there is no such branch, and none is to be made.
        Conflict: something stands in the way of the folder, or the branch holds more than a memory.
        Locked: another process shares, or a Git command is at work there.
        BrokenStore: Git refuses.
    """
    sharing, attaching, place = code.sharing, code.attaching, Path(code.work_tree) / name
    with sharing.alone():
        with code.lock.held(_PATIENCE):
            sharing.settle()
        attaching.refuse(branch, place)
        begun = (place / ".git").exists()
        done = "" if begun and attaching.tip(branch) else _branch(code, branch, files, at, tell)
        announce()
        with code.lock.held(_PATIENCE):
            attaching.attach(branch, place)
    return f"a work tree of the branch {branch}{', mended' if begun else done}"


def commit(repo: Repo, path: str, data: bytes, subject: str, at: int) -> str:
    """Commit a file of the branch that is no record, as it stands there.

    Args:
        repo: the repository, in the work tree of that branch.
        path: the file, from the top.
        data: its bytes.
        subject: of the commit.
        at: epoch milliseconds.

    Returns:
        Why it cannot be committed now; "" where it is.

    Raises:
        BadInput: Git does not know who commits.
        Locked: another process saves.
        BrokenStore: the repository refuses.
    """
    with repo.lock.held(_PATIENCE):
        item, staged = repo.item(path), repo.index.entries([path]).get(path, "")
        old, blob = item.oid if item else "", repo.blob_id(data)
        if staged not in (old, blob):
            return "another version of it is staged"
        if reason := repo.state(time.time()) or repo.conversion(path).obstacle:
            return reason
        repo.warm()
        loose = repo.objects.prepare("blob", data)
        publish([loose])
        change = Change(path, blob, old, before=staged or None)
        try:
            repo.commit(Plan([change], Message(subject), at, [loose], (), str, lambda _: None, lambda *_: None))
        except NotNow as wait:
            return wait.reason
    return ""


def _branch(code: Repo, branch: str, files: Mapping[str, bytes] | None, at: int, tell: Tell | None) -> str:
    """Make the branch where there is none here: from the other side, or anew; says from where."""
    sharing, attaching = code.sharing, code.attaching
    if attaching.tip(branch):
        added = attaching.complete(branch, files or {}, "memory: a branch of its own", at)
        return f"; {' and '.join(added)} committed to it" if added else ""
    where = sharing.usual(branch)
    found, trouble = _found(code, where, tell) if where else ("", "")
    if found and where:
        home.refuse_other(code, branch, found)
        attaching.make_branch(branch, found)
        sharing.follow(branch, where)
        return f", from {where.label}"
    if files is None:
        why = trouble or f"it is neither here nor on {where.name if where else 'a remote'}"
        raise NotFound(
            f"there is no branch {branch}, which .filemem.toml names for the memory: {why}",
            "whoever set it up pushes it with filemem sync; `filemem init --own-branch` begins a new one",
        )
    attaching.begin(branch, files, "memory: begin", at)
    return ", which begins empty"


def _found(code: Repo, where: Remote, tell: Tell | None) -> tuple[str, str]:
    """The tip of a branch on the other side, and why it cannot be told; what was fetched before will do."""
    sharing = code.sharing
    if known := sharing.tracked(where):
        return known, ""
    try:
        tip = sharing.exchange(tell).fetch(where, ())
    except BrokenStore as error:
        return "", error.message
    if tip:
        sharing.track(where, tip)
    return tip or "", ""
