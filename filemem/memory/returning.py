"""A project whose records went back from a branch of their own to the branches of its code.

Rule: a memory that settings named once and name no more is left: a clone that has it attached still is told so, with
what only that one says, and what detaches it once nothing would be lost.
"""

from __future__ import annotations

import os
import shlex

from filemem import config
from filemem.config import own_branch
from filemem.memory import strays, unkept
from filemem.memory.strays import Stray
from filemem.record.identity import PRIVATE
from filemem.repo import Repo


def gone_back(code: Repo) -> bool:
    """Whether the settings of what is checked out name no branch for the records, and did so once."""
    return not _named_here(code) and was_named(code, "HEAD")


def was_named(code: Repo, commit: str) -> bool:
    """Whether the settings of a commit name no branch for the records, while those of one before it did."""
    if own_branch(code.show(config.REPOSITORY_FILE, commit) or b"") or not code.head():
        return False
    told = code.history.rows("--full-history", "-m", commit, "--", config.REPOSITORY_FILE)
    blobs = {row.old for _, rows in told for row in rows}
    return any(own_branch(data) for data in code.revisions.blobs(one for one in blobs if one.strip("0")).values())


def why(code: Repo, memory: Repo, name: str) -> str:
    """Say that the records are in a folder of the code's branch again.

    Args:
        code: the repository of the code.
        memory: the one that is attached still.
        name: the folder, from the top of the code's work tree.
    """
    branch = memory.branch() or "of its own"
    told = f"{name}/ is the memory of this project again, whose settings name the branch {branch} no more"
    return f"{told}; that is attached here still, at {_shown(code, memory)}"


def find(code: Repo, memory: Repo, name: str) -> Stray:
    """Find what only the memory says that the project has left; arguments as for `why`."""
    place, top = code.work_tree / name, memory.work_tree
    lacking, differing = unkept.find(code, name, top, sorted(strays.records(top)))
    told = why(code, memory, name) + strays.lost(_shown(code, memory), lacking, differing, f"{name}/")
    private = any(file.is_file() and file.name != ".gitignore" for file in (top / PRIVATE).rglob("*"))
    if private:
        told += f"; {_shown(code, memory)}/{PRIVATE}/ has files that would go with it: copy them first"
    sure = not (lacking or differing or private)
    detach = f"{code.places.by_hand} worktree remove {shlex.quote(str(top))}" if sure else ""
    return Stray(told, strays.compare(code, top, place, differing), detach)


def _named_here(code: Repo) -> bool:
    here = config.load(code.work_tree).branch
    return bool(here or own_branch(code.show(config.REPOSITORY_FILE) or b""))


def _shown(code: Repo, memory: Repo) -> str:
    return os.path.relpath(memory.work_tree, code.work_tree)
