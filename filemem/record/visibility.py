"""Decide who may see a record. Every way of reading uses this rule.

- `private`, or in the folder of private records: only this clone. Its owner sees it, and so does a
  tool of another system that asks for the record's agent.
- `department`: callers that state this department.
- any other: everybody.

This is a courtesy between callers, not access control: the repository's files can be opened.
"""

from __future__ import annotations

from typing import NamedTuple

from filemem.record.model import Record

NO_DEPARTMENT = "default"  # the department of a record that names none


class Reader(NamedTuple):
    """A caller, as far as it states who it is; without arguments it sees what everybody sees."""

    owner: bool = False  # of this clone
    agent: str = ""
    department: str = ""

    def can_see(self, audience: str) -> bool:
        """Whether a record with this audience may be shown."""
        if not audience:
            return True
        kind, _, name = audience.partition(" ")
        if kind == "private":
            return self.owner or _is_same_name(name, self.agent)
        return kind == "department" and _is_same_name(name, self.department)


EVERYBODY = Reader()


def get_audience(record: Record) -> str:
    """Return the audience of a record: `private AGENT`, `department NAME`, or "" for everybody."""
    if record.visibility == "private" or is_private(record.path):
        return f"private {_fold_name(record.agent)}"
    if record.visibility == "department":
        return f"department {_fold_name(record.department or NO_DEPARTMENT)}"
    return ""


def is_private(path: str) -> bool:
    """Whether a store-relative path is in the folder that is never committed."""
    top_folder = path.partition("/")[0]
    return top_folder.casefold() == "private"


def _is_same_name(name: str, stated: str) -> bool:
    """Whether a folded name, which may be empty, is the stated one."""
    return bool(name) and name == _fold_name(stated)


def _fold_name(name: str) -> str:
    return " ".join(name.split()).casefold()
