"""Git: the only package that runs it. Knows nothing of records; paths are relative to the top of the work tree.

What only writing needs is imported at its first use (PEP 562), as in `filemem.record`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from filemem.repo.git import GitError
from filemem.repo.journal import AMEND, PUT, REMOVE, Entry, Operation
from filemem.repo.repository import Repo

if TYPE_CHECKING:
    from filemem.repo.commit import Change, Made, Moved, Plan
    from filemem.repo.creation import create
    from filemem.repo.disk import together
    from filemem.repo.lock import alive, started
    from filemem.repo.loose import Loose, publish
    from filemem.repo.message import Message
    from filemem.repo.moving import InTheWay
    from filemem.repo.refs import NotNow
    from filemem.repo.remote import Raced, Remote
    from filemem.repo.settings import Identity
    from filemem.repo.state import MERGING
else:
    _LATER = {
        "Change": "commit",
        "Identity": "settings",
        "InTheWay": "moving",
        "Loose": "loose",
        "MERGING": "state",
        "Made": "commit",
        "Message": "message",
        "Moved": "commit",
        "NotNow": "refs",
        "Plan": "commit",
        "Raced": "remote",
        "Remote": "remote",
        "alive": "lock",
        "create": "creation",
        "publish": "loose",
        "started": "lock",
        "together": "disk",
    }  # name -> the module that has it

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


__all__ = [
    "AMEND",
    "MERGING",
    "PUT",
    "REMOVE",
    "Change",
    "Entry",
    "GitError",
    "Identity",
    "InTheWay",
    "Loose",
    "Made",
    "Message",
    "Moved",
    "NotNow",
    "Operation",
    "Plan",
    "Raced",
    "Remote",
    "Repo",
    "alive",
    "create",
    "publish",
    "started",
    "together",
]
