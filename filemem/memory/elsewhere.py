"""Where a memory is that is not here: on the other side, as a branch of its own, on one that is not checked out.

Or in another folder: where other tools keep decision records.
"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from filemem import config
from filemem.files import is_record
from filemem.memory import home, origins, returning, tombstones
from filemem.repo import Repo

if TYPE_CHECKING:
    from filemem.memory.store import Store

NOTHING_YET = "nothing is saved yet"
_USUAL = config.Config().store
_LATELY = 86_400.0  # seconds
_LEFT = "nothing is left of what was saved: {0} lists it, filemem restore ID (or its path) brings it back"
# Where MADR, adr-tools, log4brains and people who follow them keep theirs.
FOLDERS = ("docs/decisions", "docs/adr", "docs/adrs", "doc/adr", "doc/decisions", "decisions", "adr")


def unbegun(store: Store) -> str:
    """What to do where nothing was ever saved, or nothing is here and records stand in another folder; or "".

    Args:
        store: the parts.
    """
    if not store.index.empty:
        return ""
    code, name = store.code, store.name
    if gone := left(store):
        return gone
    if store.absent:
        begin = told(code, name) or "no memory here yet: filemem init, or just save"
        return "; ".join(filter(None, (begin, store.astray() or beside(code, name))))
    other = (store.astray() or beside(code, name)) if store.index.exists and not store.obstacle() else ""
    return f"{NOTHING_YET}; {other}" if other else ""


def left(store: Store) -> str:
    """That something was saved and nothing of it is there any more; "" where nothing ever was, as far as that is known.

    History is walked only where this clone has saved something of late and no walk has told what ended.
    """
    if store.obstacle():
        return ""
    known = origins.remembered(store)
    if known.ended is None and store.repo.journal.has_recent(time.time(), _LATELY) and store.repo.head():
        origins.origins(store)
        known = origins.remembered(store)
    any_gone = known.ended or known.left or tombstones.marks(store.folder)
    how = "ls-tree -r --name-only --full-tree HEAD" if store.committed() else "log --diff-filter=D --name-only"
    return _LEFT.format(f"{store.repo.places.by_hand} {how} -- {shlex.quote(store.files.store)}") if any_gone else ""


def told(code: Repo, store: str) -> str:
    """What to do where nothing was ever saved here, and the other side has a memory; "" where it has none.

    Args:
        code: the repository of the project.
        store: the folder of records.
    """
    known = code.sharing.known()
    for one in known:
        if _is_memory(code, one.tip):
            where = one.where
            own = f"{where.label} is one on a branch of its own: filemem init --own-branch {where.branch} attaches it"
            return f"no memory here yet, but {own}"
    if code.tip():
        return ""
    records = (one.where for one in known if store in code.sharing.names_at(one.tip))
    found = next(records, None)
    switch = f"{code.places.by_hand} switch {found.branch}" if found else ""
    return f"no commit here yet, but {found.label} has records: {switch}" if found else ""


def beside(code: Repo, store: str) -> str:
    """How to read the decision records that the work tree has in another folder, of other tools perhaps, or "".

    Args:
        code: the repository of the project.
        store: the folder of records.
    """
    usual = code.work_tree / _USUAL / "decisions"
    if store not in (_USUAL, home.TOP) and any(is_record(one.name) for one in usual.rglob("*.md")):
        return f"{_USUAL}/ has records, which are not read from {store}/: move them there, and commit that"
    others = (one for one in FOLDERS if one != store)
    found = next((one for one in others if any(is_record(p.name) for p in (code.work_tree / one).glob("*.md"))), "")
    return f"{found} has Markdown files: filemem --store {found} reads them as decisions" if found else ""


def unnamed(code: Repo, remote: str, branch: str) -> str:
    """What to do where other clones would not find the memory, as the settings there do not name its branch; or "".

    Args:
        code: the repository of the project.
        remote: the name of the other side.
        branch: the branch that is the memory.
    """
    default = next((one for one in code.sharing.known() if one.default and one.where.name == remote), None)
    file = config.REPOSITORY_FILE
    if default is None or config.own_branch(code.show(file, default.tip) or b"") == branch:
        return ""
    if returning.was_named(code, default.tip):
        return f"{default.where.label} names this branch for the memory no more: pull, and filemem status says the rest"
    return f"commit and push {file}: {default.where.label} lacks it, so that no other clone would find this memory"


def _is_memory(code: Repo, tip: str) -> bool:
    if not home.is_memory(code, tip):
        return False
    stated = config.stated_store(code.show(config.REPOSITORY_FILE, tip) or b"")
    return bool(stated or home.RECORDS.intersection(code.sharing.names_at(tip)))
