"""What Git's index proves of a file is not read again: ids are those of the bytes, whatever happened to the file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.memory.store import Store
from tests.support import git, make_repo, write

COUNT = 66  # more than are hashed sooner than Git is asked


def record(number: int, text: str = "It is fast") -> bytes:
    return f"---\ntopic: topic {number}\n---\n\n# Use thing {number}\n\n{text}.\n".encode()


@pytest.fixture
def filled(repo: Path) -> Path:
    """Records on two branches, both older than Git's index by more than a tick of the clock."""
    for number in range(COUNT):
        write(repo / f"memory/decisions/{number:02}.md", record(number))
    settle(repo)
    git(repo, "switch", "-q", "-c", "other")
    for number in range(0, COUNT, 2):
        write(repo / f"memory/decisions/{number:02}.md", record(number, "It is slow"))
    settle(repo)
    return repo


def settle(repo: Path) -> None:
    """Commit all, and let Git's index be younger than the files."""
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", "all")
    aged(repo)


def aged(repo: Path) -> None:
    """Let Git's index be younger than the files by more than a tick, and know their times."""
    git(repo, "update-index", "-q", "--refresh", ok=False)
    time.sleep(0.03)
    os.utime(repo / ".git/index")


def read(repo: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Scan a store; the ids must be those of the bytes. Return what was read."""
    store = Store(repo)
    paths = list[str]()
    read_in = store.files._read_in

    def reading(folder: int, path: str) -> object:
        paths.append(path)
        return read_in(folder, path)

    with monkeypatch.context() as patch:
        patch.setattr(store.files, "_read_in", reading)
        found = store.scan({})
    plain = store.files.scan({}, hash_name=store.repo.hash_name)
    assert {path: entry.blob for path, entry in found.files.items()} == {
        path: entry.blob for path, entry in plain.files.items()
    }
    assert sorted(found.problems) == sorted(plain.problems)
    store.close()
    return paths


def test_what_git_knows_is_not_read(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(filled, monkeypatch) == []
    git(filled, "switch", "-q", "main")
    aged(filled)
    assert read(filled, monkeypatch) == []


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_only_plain_forms_of_the_index_are_proof(
    filled: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version == "3":
        write(filled / "new.md", "intended")
        git(filled, "add", "-N", "new.md")
    else:
        git(filled, "update-index", "--index-version", version)
    aged(filled)
    assert len(read(filled, monkeypatch)) == (COUNT if version == "4" else 0)


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_does_not_look_at_is_read(
    filled: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(filled, "update-index", mark, "memory/decisions/03.md")
    aged(filled)
    assert read(filled, monkeypatch) == ["decisions/03.md"]


def test_a_split_index_is_no_proof(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(filled, "config", "core.splitIndex", "true")
    git(filled, "update-index", "--split-index")
    time.sleep(0.03)
    (filled / ".git/index").touch()
    assert len(read(filled, monkeypatch)) == COUNT


def test_a_touched_file_and_one_of_the_same_size_and_time_are_read(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = filled / "memory/decisions/01.md"
    edited = filled / "memory/decisions/02.md"
    times = edited.stat()
    touched.touch()
    edited.write_bytes(record(2, "It is SLOW"))
    os.utime(edited, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sorted(read(filled, monkeypatch)) == ["decisions/01.md", "decisions/02.md"]


def test_a_file_as_young_as_the_index_is_read(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been written once more in the same tick of the clock."""
    path = filled / "memory/decisions/05.md"
    newest = max(path.stat().st_mtime_ns, path.stat().st_ctime_ns)
    os.utime(filled / ".git/index", ns=(newest, newest))
    assert "decisions/05.md" in read(filled, monkeypatch)


@pytest.mark.parametrize("later", [False, True])
def test_ids_are_of_the_bytes_where_git_changes_the_ends_of_lines(
    filled: Path, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it did so before, and the settings say nothing of it any more."""
    git(filled, "config", "core.autocrlf", "true")
    git(filled, "rm", "-q", "--cached", "-r", "memory")
    git(filled, "reset", "-q", "--hard")
    if later:
        git(filled, "config", "--unset", "core.autocrlf")
    aged(filled)
    assert b"\r\n" in (filled / "memory/decisions/01.md").read_bytes()
    assert len(read(filled, monkeypatch)) == COUNT


@pytest.mark.parametrize(
    ("attributes", "filtered"),
    [
        ("*.md filter=turn\n", True),
        ("*.md ident\n", True),
        ("*.md working-tree-encoding=UTF-16\n", True),
        ("*.md text\n", False),
    ],
)
def test_nothing_is_proof_under_a_filter(
    filled: Path, attributes: str, filtered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(filled / "memory/.gitattributes", attributes)
    assert len(read(filled, monkeypatch)) == (COUNT if filtered else 0)


def test_nothing_is_proof_where_a_filter_is_configured(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attribute that named it may be gone, and the files as it left them."""
    git(filled, "config", "filter.turn.clean", "tr a-z n-za-m")
    git(filled, "config", "filter.turn.smudge", "tr a-z n-za-m")
    assert len(read(filled, monkeypatch)) == COUNT


def test_a_link_swapped_in_for_a_file_or_a_folder_is_not_followed(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = filled / "memory/decisions/01.md"
    one.rename(tmp_path / "01.md")
    one.symlink_to(tmp_path / "01.md")
    assert read(filled, monkeypatch) == ["decisions/01.md"]
    (filled / "memory/decisions").rename(tmp_path / "decisions")
    (filled / "memory/decisions").symlink_to(tmp_path / "decisions")
    assert read(filled, monkeypatch) == []


def test_a_repository_of_sha256_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repo(tmp_path / "wide", object_format="sha256")
    write(repo / "memory/decisions/01.md", record(1))
    settle(repo)
    assert read(repo, monkeypatch) == ["decisions/01.md"]


@pytest.mark.parametrize("damage", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\1\0" + bytes(90)])
def test_a_damaged_index_of_git_is_no_proof(
    filled: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled / ".git/index").write_bytes(damage)
    assert len(read(filled, monkeypatch)) == COUNT


def test_a_checkout_ends_like_a_fresh_build(filled: Path) -> None:
    def found(memory: Memory) -> object:
        index = memory.keeper.store.index
        hits = [memory.search(words, limit=20).hits for words in ("slow", "fast", "topic 4")]
        answers = [sorted((hit.path, hit.record.text) for hit in some) for some in hits]
        return answers, {path: entry.blob for path, entry in index.read_manifest().items()}

    with Memory.open(filled) as memory:
        for branch in ("main", "other", "main"):
            git(filled, "switch", "-q", branch)
            aged(filled)
            memory.refresh(full=True)
        grown = found(memory)
        memory.keeper.update_index(rebuild=True)
        assert grown == found(memory)
