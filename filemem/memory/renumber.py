"""Another number for a decision record, as after two branches took the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from filemem.errors import BadInput, Conflict, NotFound
from filemem.files import is_private
from filemem.memory.adr_numbers import find_highest_number
from filemem.memory.save import WriteResult, build_result, format_commit_message, write_edits
from filemem.memory.store import Store
from filemem.record import Record, derive_id, is_markup, parse_adr_number, parse_record
from filemem.record.identity import strip_suffix
from filemem.repo import GitError
from filemem.repo.journal import Edit

if TYPE_CHECKING:
    from filemem.index import Node

_MAX_NAMED = 10  # files that link to a record and are not written


def renumber(store: Store, file: str) -> WriteResult:
    """Give a decision record the next free number, by one commit.

    The file is renamed, the number in its heading and in its `id` changes, and links to the file
    in other records follow; files that are not written are named. `file` is a path or an id; of
    two files with one number that number means the younger.

    Raises NotFound; BadInput: the file has no number; Conflict as for `update`, and where a file
    that links to it was never committed: it could not be part of the commit.
    """
    with store.repo.save_lock():
        old_node = _find_node(store, file)
        number = parse_adr_number(old_node.path, old_node.id)
        if number is None or "/" in old_node.path:
            raise BadInput(
                f"{store.to_display_path(old_node.path)} has no number in its name, or is not at the top",
                "renumber files such as docs/adr/0012-use-x.md",
                field="file",
            )
        new_number = find_highest_number(store) + 1
        new_path = re.sub(
            r"\d+", lambda digits: f"{new_number:0{len(digits[0])}}", old_node.path, count=1
        )
        old_data = store.files.read(old_node.path)
        data = _replace_number(old_data, number, new_number)
        record = parse_record(data, new_path).record
        if record is None:
            raise NotFound(
                f"{store.to_display_path(old_node.path)} cannot be read", "filemem check says why"
            )
        edits = (
            Edit(old_node.path, None, old_data),
            Edit(new_path, data, None),
            *_iter_link_edits(store, old_node, record),
        )
        subject = format_commit_message(
            record, f"renumber {number} to {new_number}", store.config.agent
        )
        save_result = write_edits(store, new_path, record.type, lambda: (edits, subject))
        unwritten = _list_unwritten(store, old_node.path, [edit.path for edit in edits])
    links = len(edits) - 2
    path = store.to_display_path(new_path)
    message = (
        f"{store.to_display_path(old_node.path)} is {path} now; links changed in {links} files"
    )
    note = f"a mention of the number {number} without a link may mean this record: look for it"
    if unwritten:
        remainder = (
            f" and {len(unwritten) - _MAX_NAMED} more" if len(unwritten) > _MAX_NAMED else ""
        )
        names = ", ".join(unwritten[:_MAX_NAMED]) + remainder
        note = f"these files name {old_node.path} and were not changed: {names}; {note}"
    return build_result(store, record, save_result, message, note)


def _find_node(store: Store, file: str) -> Node:
    """The node that is meant: of two files with one number the younger."""
    candidates = store.index.read_nodes_by_name(file) if file.isdigit() else []
    return (
        max(candidates, key=lambda node: (node.created, node.path))
        if candidates
        else store.require_node(file)
    )


def _replace_number(data: bytes, old: int, new: int) -> bytes:
    """The text with the number of its heading and of its `id` changed, where they are its own."""

    def replace_match(match: re.Match[bytes]) -> bytes:
        return match[1] + f"{new:0{len(match[2])}}".encode()

    heading = rb"(?m)^(#[ \t]+(?:[A-Za-z]{2,8}[- ]?)?)(0*%d)(?=[\s.:)\xe2-])" % old
    key = (
        rb"(?m)\A(---\n(?:(?!---).*\n)*?id:[ \t]*[\"']?(?:[A-Za-z]{2,8}-)?)(0*%d)(?=[\"']?\s)" % old
    )
    return re.sub(key, replace_match, re.sub(heading, replace_match, data, count=1), count=1)


def _iter_link_edits(store: Store, old: Node, record: Record) -> Iterator[Edit]:
    """Changes of the records that link to the file by its name, or by the id made of its path."""
    names = [(old.path, record.path)]
    if record.id == derive_id(record.path):
        names.append((old.id, record.id))
    for path in sorted(store.index.read_manifest()):
        if path == old.path or is_markup(path) or is_private(path):
            continue
        before = after = store.files.read(path)
        for name, new_name in names:
            pattern = rb"(?<![\w-])%s(?![\w-])" % re.escape(name.encode())
            after = re.sub(pattern, new_name.encode(), after)
        if after != before:
            if store.repo.find_item(store.files.to_work_tree_path(path)) is None:
                message = f"{store.to_display_path(path)} links to it and was never committed"
                raise Conflict(message, "commit it first")
            yield Edit(path, after, before)


def _list_unwritten(store: Store, path: str, written: Sequence[str]) -> list[str]:
    """The files that name a record, by its path with or without suffix, and are not written here.

    Records of other markup, pages such as README.md, and whatever else the repository holds.
    """
    name = re.sub(r"[^\w-]", ".", strip_suffix(path))
    pattern = f"(^|[^[:alnum:]_-]){name}([^[:alnum:]_-]|$)"
    try:
        output = store.repo.git.run("grep", "-lzIE", "-e", pattern, "--", ".")
    except GitError as error:
        if error.code == 1:  # no file does
            return []
        raise
    written_names = {store.files.to_work_tree_path(path) for path in written}
    names = output.decode(errors="replace").split("\0")
    return [name for name in names if name and name not in written_names]
