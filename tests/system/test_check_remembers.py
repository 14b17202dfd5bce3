"""`check` is as dear as what changed, and says the same as without an index."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.memory import Memory, remembered
from filemem.record import lint
from tests.support import git, write

SECRET = "token: ghp_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5f6G7h8"


def record(number: int, text: str = "It is fast.", header: str = "") -> str:
    return f"---\ntopic: topic {number}\n{header}---\n\n# Use thing {number}\n\n{text}\n"


@pytest.fixture
def filled(repo: Path) -> Path:
    """Records with problems of many kinds, and an index."""
    texts = {
        "00": record(0),
        "01": record(1, SECRET),
        "02": record(2, SECRET, "secrets: allowed\n"),
        "03": record(3, "\u200bhidden \x07"),
        "04": record(4, header="status: hazy\n"),
        "05": record(5, header="supersedes: [decision_none_1]\n"),
        "06": record(0, "It is small."),
    }
    for name, text in texts.items():
        write(repo / f"memory/decisions/{name}.md", text)
    write(repo / "memory/notes.txt", SECRET)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "records")
    with Memory.open(repo) as memory:
        memory.refresh(full=True)
    return repo


def found(repo: Path, base: str = "") -> object:
    with Memory.open(repo, should_update=False) as memory:
        return memory.check(base=base)


def alone(repo: Path, tmp_path: Path, base: str = "") -> object:
    """What `check` says where there is no index; and it makes none."""
    other = tmp_path / "alone"
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(repo, other, symlinks=True)
    shutil.rmtree(other / ".git/filemem/index", ignore_errors=True)
    answer = found(other, base)
    assert not (other / ".git/filemem/index").exists()
    return answer


@pytest.fixture
def linted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the texts that are looked through."""
    paths = list[str]()
    in_text = lint.check_text

    def counted(path: str, *others: object) -> object:
        paths.append(path)
        return in_text(path, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(lint, "check_text", counted)
    return paths


def test_a_text_is_looked_through_once(filled: Path, linted: list[str]) -> None:
    first = found(filled)
    assert len(linted) == 7
    linted.clear()
    assert found(filled) == first
    assert linted == []
    write(filled / "memory/decisions/00.md", record(0, f"Now {SECRET}"))
    found(filled)
    assert linted == ["decisions/00.md", "decisions/02.md"], "what its author allowed is read"


def edited(repo: Path) -> None:
    write(repo / "memory/decisions/00.md", record(0, f"Now {SECRET}"))


def reverted(repo: Path) -> None:
    edited(repo)
    found(repo)
    git(repo, "checkout", "-q", "memory")


def removed(repo: Path) -> None:
    (repo / "memory/decisions/05.md").unlink()


def untracked(repo: Path) -> None:
    git(repo, "rm", "-q", "--cached", "memory/notes.txt")


def explained(repo: Path) -> None:
    write(repo / ".filemem.toml", '[status]\nhazy = "proposed"\n')


def forgotten(repo: Path) -> None:
    with Memory.open(repo) as memory:
        memory.delete("memory/decisions/06.md")
    git(repo, "revert", "--no-edit", "HEAD")


def renamed(repo: Path) -> None:
    git(repo, "mv", "memory/decisions/01.md", "memory/decisions/07.md")


def listed(repo: Path) -> None:
    write(repo / "memory/synonyms.txt", "no group\n")


@pytest.mark.parametrize(
    "change", [edited, reverted, removed, untracked, explained, forgotten, renamed, listed]
)
def test_what_is_remembered_says_the_same_as_a_first_look(
    filled: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    assert found(filled) == found(filled) == alone(filled, tmp_path)
    change(filled)
    assert found(filled) == found(filled) == alone(filled, tmp_path)


def test_a_branch_is_compared_from_memory(filled: Path, tmp_path: Path, linted: list[str]) -> None:
    git(filled, "switch", "-q", "-c", "other")
    edited(filled)
    git(filled, "commit", "-q", "-a", "-m", "edited")
    first = found(filled, "main")
    linted.clear()
    assert found(filled, "main") == first
    assert linted == []
    assert first == alone(filled, tmp_path, "main")
    renamed(filled)
    git(filled, "commit", "-q", "-a", "-m", "renamed")
    assert found(filled, "main") == alone(filled, tmp_path, "main")


def test_other_code_remembers_nothing(
    filled: Path, linted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found(filled)
    linted.clear()
    monkeypatch.setattr(remembered, "compute_code_digest", lambda: "other")
    found(filled)
    assert len(linted) == 7


def test_the_rules_are_the_bytes_of_all_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "record/lint.py", "one")
    monkeypatch.setattr(remembered, "_PACKAGE_FOLDER", tmp_path)
    remembered.compute_code_digest.cache_clear()
    first = remembered.compute_code_digest()
    write(tmp_path / "record/lint.py", "two")
    remembered.compute_code_digest.cache_clear()
    assert remembered.compute_code_digest() != first
    remembered.compute_code_digest.cache_clear()


def test_what_ends_by_itself_is_not_kept(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(filled / "memory/decisions/00.md", record(0, header="date: 2099-01-01\n"))
    with Memory.open(filled, should_update=False) as memory:
        codes = [problem.code for problem in memory.check()[1]]
        assert "future-created" in codes
        memory._store.clock = lambda: 4_200_000_000_000
        codes = [problem.code for problem in memory.check()[1]]
        assert "future-created" not in codes


def test_a_damaged_index_changes_no_answer(filled: Path) -> None:
    first = found(filled)
    database = next((filled / ".git/filemem/index").rglob("index.db"))
    database.write_bytes(b"no database" * 1000)
    assert found(filled) == first


def test_texts_of_contents_that_are_gone_are_forgotten(filled: Path) -> None:
    found(filled)
    with Memory.open(filled) as memory:
        index = memory.keeper.store.index
        rules = remembered.compute_code_digest()
        index.write_check_results(rules, {"0" * 40: "[]"})
        before = index.read_check_results(rules)
        with index._writable_database() as database, database.transaction():
            database.delete_unused(0)
        assert before.keys() - index.read_check_results(rules).keys() == {"0" * 40}
