"""Whatever happens to the files of the index: it is noticed before a library opens them, and a rebuild heals it."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.index import Index, IndexDamaged
from filemem.query import parse
from tests.index.hashing import Hashing
from tests.index.samples import Tree, doc, make

TOP = Path(__file__).parents[2]
HARMLESS = {
    "README.md",
    "notes.json",
    "folders.json",
    "fresh",
}  # what is lost with them is said elsewhere or made again


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
    path.unlink()  # not through the hard links of the other generation
    path.write_bytes(data)


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (flip, truncate, zero, garbage, delete)


def answers(index: Index) -> object:
    found = index.candidates(parse("cache redis queue")[0]).candidates
    top = sorted(found, key=lambda one: (-round(one.keyword, 3), one.path))[:10]
    near = sorted(found, key=lambda one: (-round(one.cosine or 0, 3), one.path))[:10]
    listed = index.newest(None, 10), index.terms("topic"), sorted(index.manifest())
    return (
        [one.path for one in top],
        [(one.path, round(one.cosine or 0, 3)) for one in near],
        listed,
    )


def matrix(work: Path, every: int = 1) -> tuple[int, int]:
    """Try damages on every file; return how many there were, and how many were noticed.

    Args:
        work: an empty folder.
        every: 1 for every damage of a file; 2 for every other one, and of the next file the others.
    """
    tree = Tree(make(number, words=20) for number in range(15))
    index = Index(work / "whole", Hashing())
    tree.apply(index)
    tree.docs["late.md"] = doc("late.md", "Cache in Redis")
    index.push(tree.docs["late.md"])
    index.close()
    sound = Index(work / "sound", Hashing())
    tree.apply(sound)
    expected = answers(sound)
    files = sorted(
        path.relative_to(work / "whole") for path in (work / "whole").rglob("*") if path.is_file()
    )
    names = {path.suffix for path in files}
    assert {".rows", ".term", ".store", ".json"} <= names
    tried = noticed = 0
    for at, file in enumerate(files):
        if file.suffix == ".lock" or file.name == "lock":
            continue
        for damage in DAMAGES[at % every :: every]:
            if (file.name, damage) == ("index.db", flip):  # as with any database
                continue
            shutil.rmtree(work / "hurt", ignore_errors=True)
            shutil.copytree(work / "whole", work / "hurt")
            before = (work / "hurt" / file).read_bytes()
            damage(work / "hurt" / file, random.Random(f"{file.name} {damage.__name__}"))
            path = work / "hurt" / file
            same = path.exists() and path.read_bytes() == before
            print(file, damage.__name__, flush=True)
            tried += 1
            noticed += check(
                Index(work / "hurt", Hashing()),
                tree,
                expected,
                same or bool(HARMLESS.intersection(file.parts)),
            )
    return tried, noticed


def check(index: Index, tree: Tree, expected: object, harmless: bool) -> bool:
    told = index.verify()
    noticed = False
    try:
        answers(index)
    except IndexDamaged:
        noticed = True
        assert told
        tree.apply(index, anew=True)
    assert noticed or harmless or not told
    tree.apply(index)  # a save lost with the fresh folder is in the store all the same
    assert answers(index) == expected
    assert index.verify() == []
    index.close()
    return noticed


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
    tried, noticed = map(int, found.stdout.splitlines()[-1].split())
    assert tried >= 50 // every
    assert noticed >= 40 // every


def test_damage_is_an_error_and_not_an_empty_answer(words_only: Index) -> None:
    tree = Tree([doc("a.md", "Use Redis")])
    tree.apply(words_only)
    store = next(words_only.root.glob("g*/words/*.store"))
    zero(store, random.Random(1))
    again = Index(words_only.root.parent)
    for ask in (
        lambda: again.candidates(parse("redis")[0]),
        again.newest,
        again.count,
        again.nodes,
        again.manifest,
        lambda: again.lookup("id", ["x"]),
    ):
        with pytest.raises(IndexDamaged, match="damaged"):
            ask()
    words_only.close()
    tree.apply(again, anew=True)
    assert again.count() == 1


def test_a_foreign_folder_is_not_opened(tmp_path: Path) -> None:
    """Tantivy and usearch files that somebody put there are not ours: nothing is sealed."""
    root = Index(tmp_path / "index").root
    (root / "g0000000001" / "words").mkdir(parents=True)
    (root / "g0000000001" / "words" / "meta.json").write_text("{}")
    assert not Index(tmp_path / "index").exists
    (root / "index.db").write_text("no database")
    with pytest.raises(IndexDamaged, match=r"index\.db cannot be read"):
        Index(tmp_path / "index").count()
