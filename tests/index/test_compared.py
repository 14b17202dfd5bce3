"""Which files of a generation need no comparison with their checksums."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from filemem.index import compared


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "words").mkdir()
    for name in ("words/a", "words/b"):
        (tmp_path / name).write_bytes(b"0123456789")
    time.sleep(0.03)  # files as young as the clock's tick are never trusted
    return tmp_path


def test_what_was_compared_is_remembered_by_every_process(folder: Path) -> None:
    compared.remember(folder, compared.recall(folder), ["words/a"])
    compared.remember(folder, compared.recall(folder), ["words/b"])
    assert compared.recall(folder).keys() == {"words/a", "words/b"}


@pytest.mark.parametrize("keep_times", [False, True])
def test_a_write_is_seen(folder: Path, keep_times: bool) -> None:
    compared.remember(folder, {}, ["words/a", "words/b"])
    before = (folder / "words/a").stat()
    (folder / "words/a").write_bytes(b"0123x56789")
    if keep_times:
        os.utime(folder / "words/a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert compared.recall(folder).keys() == {"words/b"}


def test_a_replaced_or_missing_file_is_seen(folder: Path) -> None:
    compared.remember(folder, {}, ["words/a", "words/b"])
    (folder / "words/new").write_bytes(b"0123456789")
    (folder / "words/new").replace(folder / "words/a")
    assert compared.recall(folder).keys() == {"words/b"}
    (folder / "words/b").unlink()
    assert compared.recall(folder) == {}


def test_a_file_that_was_only_just_written_is_not_trusted(folder: Path) -> None:
    (folder / "words/a").write_bytes(b"9876543210")
    compared.remember(folder, {}, ["words/a", "words/b"])
    assert compared.recall(folder).keys() == {"words/b"}


def test_a_day_later_it_is_compared_again(folder: Path) -> None:
    compared.remember(folder, {}, ["words/a", "words/b"])
    note = folder / "compared.json"
    marks = json.loads(note.read_text())
    marks["words/a"][0] -= 86_400 * 10**9
    note.write_text(json.dumps(marks))
    assert compared.recall(folder).keys() == {"words/b"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"words/a": []}', '{"words/a": 5}', '{"words/a": ["x"]}', "\x00"])
def test_a_damaged_note_trusts_nothing(folder: Path, text: str) -> None:
    (folder / "compared.json").write_text(text)
    assert compared.recall(folder) == {}
