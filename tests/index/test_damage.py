"""Whatever happens to the files of the index: it is noticed before a library opens them, and a rebuild heals it."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.index import Index, IndexDamaged, caches
from filemem.query import parse_query
from tests.index.hashing import Hashing
from tests.index.samples import Tree, doc, make, serial

TOP = Path(__file__).parents[2]


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(1 + len(data) // 5000):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    write(path, bytes(data))


def truncate(path: Path, rng: random.Random) -> None:
    write(path, path.read_bytes()[: rng.randrange(max(1, path.stat().st_size))])


def zero(path: Path, rng: random.Random) -> None:
    write(path, bytes(path.stat().st_size))


def garbage(path: Path, rng: random.Random) -> None:
    write(path, rng.randbytes(path.stat().st_size))


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def write(path: Path, data: bytes) -> None:
    path.unlink()  # as another file, with another inode
    path.write_bytes(data)


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (flip, truncate, zero, garbage, delete)


def answers(index: Index) -> object:
    found = index.search_candidates(parse_query("cache redis queue")[0]).candidates
    top = sorted(found, key=lambda one: (-round(one.keyword, 3), one.path))[:10]
    near = sorted(found, key=lambda one: (-round(one.cosine or 0, 3), one.path))[:10]
    listed = (
        index.read_newest_nodes(None, 10),
        index.count_terms("topic"),
        sorted(index.read_manifest()),
    )
    return (
        [one.path for one in top],
        [(one.path, round(one.cosine or 0, 3)) for one in near],
        listed,
    )


def matrix(work: Path, every: int = 1) -> tuple[int, int]:
    """Try damages on every file; return how many there were, and how many of the database.

    Args:
        work: an empty folder.
        every: 1 for every damage of a file; 2 for every other one, and of the next file the others.
    """
    tree = Tree(make(number, words=20) for number in range(15))
    index = Index(work / "whole", Hashing())
    tree.apply(index)
    tree.docs["late.md"] = doc("late.md", "Cache in Redis")
    index.add_document(tree.docs["late.md"])
    index.update_caches(with_usearch=True)
    expected = answers(index)
    index.close()
    files = sorted(
        path.relative_to(work / "whole") for path in (work / "whole").rglob("*") if path.is_file()
    )
    assert {".rows", ".usearch", ".term", ".json", ".db"} <= {path.suffix for path in files}
    tried = rebuilt = 0
    for at, file in enumerate(files):
        if file.suffix == ".lock":
            continue
        for damage in DAMAGES[at % every :: every]:
            if (file.name, damage) == ("index.db", flip):  # as with any database
                continue
            shutil.rmtree(work / "hurt", ignore_errors=True)
            shutil.copytree(work / "whole", work / "hurt")
            damage(work / "hurt" / file, random.Random(f"{file.name} {damage.__name__}"))
            print(file, damage.__name__, flush=True)
            tried += 1
            rebuilt += check(Index(work / "hurt", Hashing()), tree, expected, file.name)
    return tried, rebuilt


def check(index: Index, tree: Tree, expected: object, name: str) -> bool:
    """Without caches the answers are the same; a damaged database is noticed, and built anew."""
    wrong = index.check_database()
    try:
        if index.is_built:
            assert answers(index) == expected
            assert not wrong
        else:
            assert name == "index.db"
            tree.apply(index)
    except IndexDamaged:
        assert name == "index.db"
        assert wrong
        tree.apply(index, anew=True)
    index.update_caches(check_all=True)
    assert answers(index) == expected
    assert index.check_database() == []
    index.close()
    return bool(wrong)


CODE = """
import sys
from pathlib import Path
from tests.index.test_damage import matrix
print(*matrix(Path(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.long)])
def test_every_damage_of_every_file_is_noticed_and_healed(tmp_path: Path, every: int) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path), str(every)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=TOP, check=False)
    assert found.returncode == 0, f"{found.stdout[-300:]}\n{found.stderr[-3000:]}"
    tried, rebuilt = map(int, found.stdout.splitlines()[-1].split())
    assert tried >= 50 // every
    assert rebuilt >= 3 // every


def test_damage_is_an_error_and_not_an_empty_answer(words_only: Index) -> None:
    tree = Tree([doc("a.md", "Use Redis")])
    tree.apply(words_only)
    words_only.close()
    zero(words_only.root / "index.db", random.Random(1))
    again = Index(words_only.root.parent)
    for ask in (
        lambda: again.search_candidates(parse_query("redis")[0]),
        again.read_newest_nodes,
        again.count_records,
        again.read_nodes,
        again.read_manifest,
        lambda: again.read_nodes_by_field("id", ["x"]),
    ):
        with pytest.raises(IndexDamaged, match="damaged"):
            ask()
    tree.apply(again, anew=True)
    assert again.count_records() == 1


@pytest.mark.timeout(30)
def test_damaged_caches_are_waited_for_once_and_then_passed_over(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the lock that would end the wait is never given back."""
    monkeypatch.setattr(caches, "_LOCK_TIMEOUT", 0.05)
    Tree(make(number) for number in range(3)).apply(index)
    zero(next((index.root / "words").glob("*.term")), random.Random(1))
    index.close()
    with caches.exclusive_lock(index.root / "caches.lock"):
        found = index.search_candidates(parse_query(serial(1))[0], mode="keyword").candidates
    assert [candidate.path for candidate in found] == [make(1).path]


def test_a_text_that_was_altered_in_the_database_is_noticed(index: Index) -> None:
    """SQLite has no checksums of its own for what is inside a row."""
    tree = Tree(make(number) for number in range(3))
    tree.apply(index)
    index.close()
    with sqlite3.connect(index.root / "index.db") as database:
        database.execute("UPDATE texts SET card = zeroblob(length(card)), tokens = zeroblob(9)")
        database.execute("UPDATE meaning SET pack = zeroblob(length(pack))")
        database.execute("UPDATE state SET value = '' WHERE name = 'caches'")
    with pytest.raises(IndexDamaged, match="a text in it cannot be read"):
        index.read_records([make(1).path])
    with pytest.raises(IndexDamaged, match="do not match"):
        index.find_nearest("cache", "redis", 3, ())


def test_a_foreign_folder_is_not_opened(tmp_path: Path) -> None:
    """Files of Tantivy and usearch that somebody put there are not ours: no checksum states them."""
    root = Index(tmp_path / "index").root
    (root / "words").mkdir(parents=True)
    (root / "words" / "meta.json").write_text("{}")
    assert not Index(tmp_path / "index").is_built
    (root / "index.db").write_text("no database")
    with pytest.raises(IndexDamaged, match=r"index\.db cannot be read"):
        Index(tmp_path / "index").count_records()
