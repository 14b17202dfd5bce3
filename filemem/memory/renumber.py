"""Another number for a decision record, as after two branches took the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from filemem.errors import BadInput, Conflict, NotFound
from filemem.files import is_private
from filemem.memory.adr_numbers import highest_number
from filemem.memory.save import Saved, answer, message_of, write
from filemem.memory.store import Store
from filemem.record import Record, adr_number, derived_id, is_markup, parse
from filemem.record.identity import stem_of
from filemem.repo import GitError
from filemem.repo.journal import Edit

if TYPE_CHECKING:
    from filemem.index import Node

_NAMED = 10  # files that link to a record and are not written


def renumber(store: Store, file: str) -> Saved:
    """Give a decision record the next free number, by one commit.

    The file is renamed, the number in its heading and in its `id` changes, and links to the file
    in other records follow; files that are not written are named. `file` is a path or an id; of
    two files with one number that number means the younger.

    Raises NotFound; BadInput: the file has no number; Conflict as for `update`, and where a file
    that links to it was never committed: it could not be part of the commit.
    """
    with store.repo.saving():
        old = _meant(store, file)
        number = adr_number(old.path, old.id)
        if number is None or "/" in old.path:
            raise BadInput(
                f"{store.display_path(old.path)} has no number in its name, or is not at the top",
                "renumber files such as docs/adr/0012-use-x.md",
                field="file",
            )
        free = highest_number(store) + 1
        new = re.sub(r"\d+", lambda digits: f"{free:0{len(digits[0])}}", old.path, count=1)
        before = store.files.read(old.path)
        data = _renumbered(before, number, free)
        record = parse(data, new).record
        if record is None:
            raise NotFound(
                f"{store.display_path(old.path)} cannot be read", "filemem check says why"
            )
        edits = (Edit(old.path, None, before), Edit(new, data, None), *_mended(store, old, record))
        subject = message_of(record, f"renumber {number} to {free}", store.config.agent)
        made = write(store, new, record.type, lambda: (edits, subject))
        others = _not_written(store, old.path, [edit.path for edit in edits])
    links = len(edits) - 2
    path = store.display_path(new)
    message = f"{store.display_path(old.path)} is {path} now; links changed in {links} files"
    note = f"a mention of the number {number} without a link may mean this record: look for it"
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        names = ", ".join(others[:_NAMED]) + more
        note = f"these files name {old.path} and were not changed: {names}; {note}"
    return answer(store, record, made, message, note)


def _meant(store: Store, file: str) -> Node:
    """The node that is meant: of two files with one number the younger."""
    same = store.index.answering(file) if file.isdigit() else []
    return max(same, key=lambda node: (node.created, node.path)) if same else store.find(file)


def _renumbered(data: bytes, old: int, new: int) -> bytes:
    """The text with the number of its heading and of its `id` changed, where they are its own."""

    def changed(match: re.Match[bytes]) -> bytes:
        return match[1] + f"{new:0{len(match[2])}}".encode()

    heading = rb"(?m)^(#[ \t]+(?:[A-Za-z]{2,8}[- ]?)?)(0*%d)(?=[\s.:)\xe2-])" % old
    key = (
        rb"(?m)\A(---\n(?:(?!---).*\n)*?id:[ \t]*[\"']?(?:[A-Za-z]{2,8}-)?)(0*%d)(?=[\"']?\s)" % old
    )
    return re.sub(key, changed, re.sub(heading, changed, data, count=1), count=1)


def _mended(store: Store, old: Node, record: Record) -> Iterator[Edit]:
    """Changes of the records that link to the file by its name, or by the id made of its path."""
    names = [(old.path, record.path)]
    if record.id == derived_id(record.path):
        names.append((old.id, record.id))
    for path in sorted(store.index.manifest()):
        if path == old.path or is_markup(path) or is_private(path):
            continue
        before = after = store.files.read(path)
        for name, following in names:
            pattern = rb"(?<![\w-])%s(?![\w-])" % re.escape(name.encode())
            after = re.sub(pattern, following.encode(), after)
        if after != before:
            if store.repo.item(store.files.named(path)) is None:
                message = f"{store.display_path(path)} links to it and was never committed"
                raise Conflict(message, "commit it first")
            yield Edit(path, after, before)


def _not_written(store: Store, path: str, written: Sequence[str]) -> list[str]:
    """The files that name a record, by its path with or without suffix, and are not written here.

    Records of other markup, pages such as README.md, and whatever else the repository holds.
    """
    name = re.sub(r"[^\w-]", ".", stem_of(path))
    pattern = f"(^|[^[:alnum:]_-]){name}([^[:alnum:]_-]|$)"
    try:
        output = store.repo.git.run("grep", "-lzIE", "-e", pattern, "--", ".")
    except GitError as error:
        if error.code == 1:  # no file does
            return []
        raise
    ours = {store.files.named(path) for path in written}
    names = output.decode(errors="replace").split("\0")
    return [name for name in names if name and name not in ours]
