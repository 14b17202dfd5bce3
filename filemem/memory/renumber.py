"""Another number for a decision record, as after two branches took the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
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

_MAX_NAMED = 10  # unchanged files in the note


def renumber(store: Store, file: str) -> WriteResult:
    """Give a decision record the next free number, by one commit.

    The file is renamed, the number in its heading and its `id` changes, and links to the file in
    other records are updated; other files that mention it are named.

    Args:
        store: the memory.
        file: a path or an id; of two files with one number, the number means the younger.

    Raises:
        NotFound: the record is missing or unreadable.
        BadInput: the file has no number.
        Conflict: as for `update`, or a file that links to it was never committed.
    """
    with store.repo.save_lock():
        old_node = _find_node(store, file)
        number = _require_number(store, old_node)
        new_number = find_highest_number(store) + 1
        new_path = _replace_path_number(old_node.path, new_number)
        old_data = store.files.read(old_node.path)
        data = _replace_number(old_data, number, new_number)
        record = parse_record(data, new_path).record
        if record is None:
            shown_path = store.to_display_path(old_node.path)
            raise NotFound(f"{shown_path} cannot be read", "filemem check says why")
        link_edits = list(_iter_link_edits(store, old_node, record))
        rename_edits = (Edit(old_node.path, None, old_data), Edit(new_path, data, None))
        edits = (*rename_edits, *link_edits)
        title = f"renumber {number} to {new_number}"
        subject = format_commit_message(record, title, store.config.agent)

        def plan_edits() -> tuple[tuple[Edit, ...], str]:
            return edits, subject

        save_result = write_edits(store, new_path, record.type, plan_edits)
        unwritten = _list_unwritten(store, old_node.path, [edit.path for edit in edits])
    old_label = store.to_display_path(old_node.path)
    new_label = store.to_display_path(new_path)
    message = f"{old_label} is {new_label} now; links changed in {len(link_edits)} files"
    note = f"a mention of the number {number} without a link may mean this record: look for it"
    if unwritten:
        names = _format_names(unwritten)
        note = f"these files name {old_node.path} and were not changed: {names}; {note}"
    return build_result(store, record, save_result, message, note)


def _require_number(store: Store, node: Node) -> int:
    number = parse_adr_number(node.path, node.id)
    if number is None or "/" in node.path:
        shown_path = store.to_display_path(node.path)
        raise BadInput(
            f"{shown_path} has no number in its name, or is not at the top",
            "renumber files such as docs/adr/0012-use-x.md",
            field="file",
        )
    return number


def _replace_path_number(path: str, number: int) -> str:
    """Replace the first number of a path, with as many digits."""
    digits = re.search(r"\d+", path)
    if digits is None:
        return path
    padded = f"{number:0{len(digits[0])}}"
    return f"{path[: digits.start()]}{padded}{path[digits.end() :]}"


def _format_names(names: Sequence[str]) -> str:
    listing = ", ".join(names[:_MAX_NAMED])
    if len(names) > _MAX_NAMED:
        listing += f" and {len(names) - _MAX_NAMED} more"
    return listing


def _find_node(store: Store, file: str) -> Node:
    """Find a record; of two files with one number the younger."""
    candidates = store.index.read_nodes_by_name(file) if file.isdigit() else []
    if not candidates:
        return store.require_node(file)
    return max(candidates, key=attrgetter("created", "path"))


def _replace_number(data: bytes, old: int, new: int) -> bytes:
    """Replace the number of a record in its heading and in its `id`."""

    def replace_match(match: re.Match[bytes]) -> bytes:
        return match[1] + f"{new:0{len(match[2])}}".encode()

    heading = rb"(?m)^(#[ \t]+(?:[A-Za-z]{2,8}[- ]?)?)(0*%d)(?=[\s.:)\xe2-])" % old
    key = (
        rb"(?m)\A(---\n(?:(?!---).*\n)*?id:[ \t]*[\"']?(?:[A-Za-z]{2,8}-)?)(0*%d)(?=[\"']?\s)" % old
    )
    data = re.sub(heading, replace_match, data, count=1)
    return re.sub(key, replace_match, data, count=1)


def _iter_link_edits(store: Store, old: Node, record: Record) -> Iterator[Edit]:
    """Yield changes of the records that link to a file by its name, or by an id from its path."""
    names = {old.path: record.path}
    if record.id == derive_id(record.path):
        names[old.id] = record.id
    for path in sorted(store.index.read_manifest()):
        if path == old.path or is_markup(path) or is_private(path):
            continue
        before = store.files.read(path)
        after = _replace_names(before, names)
        if after == before:
            continue
        if store.repo.find_item(store.files.to_work_tree_path(path)) is None:
            message = f"{store.to_display_path(path)} links to it and was never committed"
            raise Conflict(message, "commit it first")
        yield Edit(path, after, before)


def _replace_names(data: bytes, names: Mapping[str, str]) -> bytes:
    for name, new_name in names.items():
        pattern = rb"(?<![\w-])%s(?![\w-])" % re.escape(name.encode())
        data = re.sub(pattern, new_name.encode(), data)
    return data


def _list_unwritten(store: Store, path: str, written: Sequence[str]) -> list[str]:
    """List unchanged files that name a record by its path, with or without suffix."""
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
