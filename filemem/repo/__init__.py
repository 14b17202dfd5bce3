"""Git: the only package that runs it. Knows nothing of records; paths are relative to the top of the work tree."""

from filemem.repo.commit import Change, Made, Moved
from filemem.repo.creation import create
from filemem.repo.git import GitError
from filemem.repo.journal import AMEND, PUT, REMOVE, Entry, Operation
from filemem.repo.lock import alive, started
from filemem.repo.message import Message
from filemem.repo.objects import Loose
from filemem.repo.parallel import together
from filemem.repo.people import People, people
from filemem.repo.refs import NotNow
from filemem.repo.repository import Repo
from filemem.repo.settings import Identity

__all__ = [
    "AMEND",
    "PUT",
    "REMOVE",
    "Change",
    "Entry",
    "GitError",
    "Identity",
    "Loose",
    "Made",
    "Message",
    "Moved",
    "NotNow",
    "Operation",
    "People",
    "Repo",
    "alive",
    "create",
    "people",
    "started",
    "together",
]
