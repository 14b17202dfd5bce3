"""Who may see a record: the one owner of that rule, which every way of reading asks.

- `private`, or in the folder of private ones: nobody but this clone. Its owner sees it, and so
  does a tool of another system that asks for the agent that it names.
- `department`: callers that state this department; nobody where none is stated.
- anything else: everybody.

It is a courtesy between callers, not access control: whoever has the repository can open its files.
"""

from __future__ import annotations

from typing import NamedTuple

from filemem.record.model import Record

NO_DEPARTMENT = "default"  # the department of a record that names none


class Reader(NamedTuple):
    """Who asks, as far as he states it; without anything, one who sees what is for everybody."""

    owner: bool = False  # of this clone
    agent: str = ""
    department: str = ""

    def can_see(self, audience: str) -> bool:
        """Whether a record with this audience may be shown."""
        kind, _, name = audience.partition(" ")
        if kind == "private" and self.owner:
            return True
        stated = {"private": self.agent, "department": self.department}.get(kind, "")
        return not audience or (bool(name) and name == _fold_name(stated))


EVERYBODY = Reader()


def get_audience(record: Record) -> str:
    """Return for whom a record is: `private AGENT`, `department NAME`, or "" for everybody."""
    if record.visibility == "private" or is_private(record.path):
        return f"private {_fold_name(record.agent)}"
    if record.visibility == "department":
        return f"department {_fold_name(record.department or NO_DEPARTMENT)}"
    return ""


def is_private(path: str) -> bool:
    """Return whether a store-relative path lies in the folder that is never committed."""
    return path.split("/", 1)[0].casefold() == "private"


def _fold_name(name: str) -> str:
    return " ".join(name.split()).casefold()
