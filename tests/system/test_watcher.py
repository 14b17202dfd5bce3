"""What any program does to the files is found by a running watcher within its promised time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from filemem import watch
from filemem.memory import Memory
from filemem.query import Filter
from filemem.watch import Watcher
from tests.support import git, write
from tests.system.tools import following, until

SOON = 30.0  # seconds; the promise is two, on a machine that has time


@pytest.fixture
def watched(repo: Path) -> Iterator[Memory]:
    """A memory with one record, followed by a watcher that has had its first look."""
    decision(repo, "first", "Begin with this")
    with Memory.open(repo, serving=True) as memory, following(memory) as watcher:
        assert watcher.first_look.wait(SOON)
        until(lambda: titles(memory) == {"Begin with this"})
        yield memory


def decision(repo: Path, name: str, title: str) -> Path:
    return write(
        repo / f"memory/decisions/{name}.md",
        f"---\ntopic: {Path(name).name}\n---\n# {title}\n\nBecause.\n",
    )


def titles(memory: Memory) -> set[str]:
    return {node.title for node in memory._store.index.read_nodes()}


def count(memory: Memory) -> int:
    return memory._store.index.count_records(Filter())


def in_place(path: Path, text: str) -> None:
    path.write_text(text)


def like_vim(path: Path, text: str) -> None:
    """Rename the file to a backup, write a new one under the old name, drop the backup."""
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def like_vs_code(path: Path, text: str) -> None:
    """Write aside and rename over."""
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(text)
    aside.replace(path)


def like_sed(path: Path, text: str) -> None:
    """As `sed -i` does: a file without the suffix, renamed over."""
    aside = path.with_name("sedX1a2b3")
    aside.write_text(text)
    aside.replace(path)


@pytest.mark.parametrize("save", [in_place, like_vim, like_vs_code, like_sed])
def test_the_ways_of_editors(
    watched: Memory, repo: Path, save: Callable[[Path, str], None]
) -> None:
    path = repo / "memory/decisions/first.md"
    for version in ("Version one", "Version two", "Version six"):
        save(path, f"---\ntopic: first\n---\n# {version}\n")
        until(lambda version=version: titles(watched) == {version}, SOON)  # type: ignore[misc]
    assert [hit.record.title for hit in watched.search("version").hits] == ["Version six"]


def test_files_that_editors_leave_beside_are_no_records(watched: Memory, repo: Path) -> None:
    folder = repo / "memory/decisions"
    for name in (
        ".first.md.swp",
        "first.md~",
        "#first.md#",
        ".#first.md",
        "first.md.tmp",
        "README.md",
    ):
        (folder / name).write_text("# Not a record\n")
    decision(repo, "second", "Last of all")
    until(lambda: "Last of all" in titles(watched), SOON)
    assert titles(watched) == {"Begin with this", "Last of all"}


def test_new_nested_folders_with_files_at_once(watched: Memory, repo: Path) -> None:
    """Of such files the operating system's events miss some, always."""
    for number in range(150):
        decision(repo, f"deep/{number % 10}/{number % 50}/of/topic{number}", f"Nested {number}")
    until(lambda: count(watched) == 151, 30)


def test_a_store_that_is_not_there_yet(repo: Path) -> None:
    with Memory.open(repo, serving=True) as memory, following(memory) as watcher:
        assert watcher.first_look.wait(SOON)
        with Memory.open(repo, should_update=False) as other:
            assert other.keeper.ensure_current(0.0, should_scan=True), (
                "a command waits for no server where there is nothing to see"
            )
        decision(repo, "first", "The folder came later")
        until(lambda: titles(memory) == {"The folder came later"}, SOON)


def test_saves_of_this_process_are_committed_and_the_caches_follow(
    watched: Memory, repo: Path
) -> None:
    saved = [watched.save(title=f"Note {number}", text="batched") for number in range(5)]
    assert {one.record.id for one in watched.search("note batched").hits} >= {
        one.id for one in saved
    }
    until(lambda: not git(repo, "status", "--porcelain", "--", *(one.path for one in saved)), SOON)
    until(lambda: watched._store.index.uncached_count == 0, SOON)
    assert watched.status()["pending"] == []


def test_a_checkout_that_changes_many_files(repo: Path) -> None:
    """Switch between branches that hold no file in common, and back."""
    git(repo, "switch", "-q", "-c", "full")
    for number in range(250):
        decision(repo, f"t{number % 40}/topic{number}", f"Of the branch {number}")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Many")
    git(repo, "switch", "-q", "main")
    decision(repo, "first", "Of main")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "One")
    with Memory.open(repo, serving=True) as memory, following(memory):
        until(lambda: titles(memory) == {"Of main"}, SOON)
        git(repo, "switch", "-q", "full")
        until(lambda: count(memory) == 250, SOON, pause=0.2)
        git(repo, "switch", "-q", "main")
        until(lambda: titles(memory) == {"Of main"}, SOON, pause=0.2)
        assert memory.search("main", live=True).hits[0].provenance.author == "Ada"


def test_folder_times_are_compared_no_more_often_than_that_costs(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher without events, on a clock of its own: each look takes .3 s of it, as at 100,000 folders."""
    now, looks = [1_000.0], list[bool]()

    def look(*, full: bool, hints: object) -> int:
        looks.append(full)
        now[0] += 3.0 if full else 0.3
        return 0

    def quiet(*_: object, **__: object) -> Iterator[set[object]]:
        while now[0] < 2_000:
            now[0] += 2.0
            yield set()

    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(watch, "watchfiles", SimpleNamespace(watch=quiet))
    monkeypatch.setattr(memory, "refresh", look)
    memory.save(topic="watch", decision="Look seldom", reasoning="It costs")
    folder = memory.folder.stat()
    Watcher(memory)._follow_changes(memory.folder, (folder.st_dev, folder.st_ino))
    assert looks.count(True) in range(5, 9)
    assert looks.count(False) in range(40, 65), (
        "one in sixteen seconds, where it was every second one"
    )
