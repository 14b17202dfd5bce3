"""A server whose HEAD is moved under it: what is saved and found at once is true to where HEAD is now."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

import pytest

from filemem.errors import Conflict
from filemem.files import Files
from filemem.memory import Memory
from filemem.memory.moves import carried
from filemem.memory.values import Saved
from filemem.repo import Entry
from filemem.repo.journal import Journal, Operation
from filemem.repo.refs import Refs, UserIndex
from tests.support import git, index_folder, make_repo


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """A server's memory, its watcher slower than anything in these tests."""
    with Memory.open(repo, serving=True) as opened:
        opened.save(topic="db", decision="Use Postgres", reasoning="known")
        opened.refresh(full=True)
        yield opened


def titles(memory: Memory, **restrictions: object) -> set[str]:
    return {hit.record.title for hit in memory.search(**restrictions).hits}  # type: ignore[arg-type]


def test_a_save_after_a_checkout_replaces_what_holds_there(repo: Path, memory: Memory) -> None:
    before = memory.search().hits[0].id
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="db", decision="Use MySQL", reasoning="on the other branch")
    git(repo, "switch", "-q", "main")
    assert memory.save(topic="db", decision="Use SQLite", reasoning="on main").superseded == (before,)
    git(repo, "merge", "-q", "-m", "Merge", "other")
    assert titles(memory, topic="db", live=True) == {"Use MySQL", "Use SQLite"}


def test_a_save_after_a_pull_replaces_what_was_pulled(repo: Path, memory: Memory, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), str(clone))
    for name in ("user.name", "user.email"):
        git(clone, "config", name, git(repo, "config", name).strip())
    with Memory.open(clone) as mate:
        pulled = mate.save(topic="db", decision="Use DuckDB", reasoning="a mate's")
    git(repo, "pull", "-q", "--ff-only", str(clone), "HEAD")
    assert memory.save(topic="db", decision="Use SQLite", reasoning="ours").superseded == (pulled.id,)


def test_what_a_checkout_brought_is_found_at_once(repo: Path, memory: Memory) -> None:
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="auth", decision="Use tokens", reasoning="on the other branch")
    memory.refresh(full=True)
    git(repo, "switch", "-q", "main")
    assert titles(memory) == {"Use Postgres"}
    git(repo, "switch", "-q", "other")
    assert titles(memory) == {"Use Postgres", "Use tokens"}


def test_a_checkout_amid_a_look_does_not_fail_it(repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the look had listed is gone, and one that HEAD has is missing, when it asks what was moved."""
    (repo / memory.search().hits[0].path).unlink()
    for name in ("one", "two"):
        (repo / f"memory/{name}.md").write_text(f"# {name}\n")
    scan = Files.scan

    def listed_before(files: Files, *args: Any, **options: Any) -> Any:
        found = scan(files, *args, **options)
        (repo / "memory/one.md").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Files, "scan", listed_before)
    memory.refresh(full=True)
    monkeypatch.undo()
    memory.refresh(full=True)
    assert titles(memory) == {"two"}


@pytest.mark.parametrize("look", ["refresh", "rebuild"])
def test_what_is_saved_amid_a_look_keeps_its_first_commit(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """The look sees the file and not yet the commit; what the save then tells the index is the truth."""
    scan, move = Files.scan, Refs.move
    stands, looked = Event(), Event()
    saved: list[Saved] = []

    def save() -> None:
        with Memory.open(repo, look=False) as other:
            saved.append(other.save(topic="auth", decision="Use tokens", reasoning="no session to keep"))

    def move_later(*args: Any) -> bool:
        stands.set()
        assert looked.wait(30)
        return move(*args)

    def scan_later(*args: Any, **options: Any) -> Any:
        if not saving.ident:
            saving.start()
        assert stands.wait(30)
        return scan(*args, **options)

    def carried_before(*args: Any, **options: Any) -> Any:
        found = carried(*args, **options)
        looked.set()
        saving.join()
        return found

    monkeypatch.setattr(Refs, "move", move_later)
    monkeypatch.setattr(Files, "scan", scan_later)
    monkeypatch.setattr("filemem.memory.syncing.carried", carried_before)
    saving = Thread(target=save)
    memory.refresh(full=True) if look == "refresh" else memory.rebuild()
    for _ in range(2):
        commits = {hit.record.title: hit.provenance.commit for hit in memory.search().hits}
        assert commits["Use tokens"] == saved[0].commit
        memory.refresh(full=True)


def test_saves_of_another_process_need_no_look(repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(repo, serving=True) as other:
        first = other.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
        second = other.save(topic="auth", decision="Use passkeys", reasoning="nothing to type")
    looks: list[object] = []
    monkeypatch.setattr(Memory, "_catch_up", lambda *_, **how: looks.append(how))
    assert memory.save(topic="auth", decision="Use both", reasoning="for a while").superseded == (second.id,)
    assert titles(memory, topic="auth", live=True) == {"Use both"}
    assert second.superseded == (first.id,)
    assert not looks


def test_where_the_writer_of_the_index_stands_still_the_files_tell_what_holds(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filemem.memory.LONG", 0.2)
    with Memory.open(repo, serving=True) as reader:
        before = reader.search().hits[0].id
        git(repo, "switch", "-q", "-c", "other")
        memory.save(topic="db", decision="Use MySQL", reasoning="on the other branch")
        git(repo, "switch", "-q", "main")
        assert reader.save(topic="db", decision="Use SQLite", reasoning="on main").superseded == (before,)


def test_a_checkout_amid_the_aftercare_leaves_no_entry_behind(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    real = UserIndex.entries

    def during(self: UserIndex, paths: Sequence[str]) -> dict[str, str]:
        monkeypatch.setattr(UserIndex, "entries", real)
        git(repo, "switch", "-q", "main")
        return real(self, paths)

    monkeypatch.setattr(UserIndex, "entries", during)
    memory.refresh()
    assert git(repo, "branch", "--show-current").strip() == "main", "the switch took place"
    assert git(repo, "status", "--porcelain") == ""


def test_a_damaged_entry_of_a_save_hides_nothing(repo: Path, memory: Memory) -> None:
    saved = memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    (entry,) = (index_folder(repo) / "fresh").glob("*.json")
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    with Memory.open(repo, serving=True) as other:
        memory.close()
        assert titles(other, topic="auth") == {"Use tokens"}
        assert other.save(topic="auth", decision="Use both", reasoning="for a while").superseded == (saved.id,)


def test_a_commit_lands_on_its_branch_though_head_is_detached_meanwhile(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Refs.move

    def after_detaching(self: Refs, branch: str, new: str, old: str | None) -> bool:
        git(repo, "checkout", "-q", "--detach")
        return real(self, branch, new, old)

    monkeypatch.setattr(Refs, "move", after_detaching)
    saved = memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    assert git(repo, "rev-parse", "main") == saved.commit
    assert "A " not in git(repo, "status", "--porcelain"), "no entry is left where HEAD is now"
    git(repo, "checkout", "-q", "main")
    assert git(repo, "status", "--porcelain") == ""
    assert titles(memory, topic="auth") == {"Use tokens"}


@pytest.mark.parametrize("hard", [False, True])
def test_a_reset_that_had_read_head_before_the_save_does_not_lose_it(repo: Path, memory: Memory, hard: bool) -> None:
    before = git(repo, "rev-parse", "HEAD")
    saved = memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    # What `git reset` does when it read HEAD before our commit: it moves it back without comparing.
    git(repo, "update-ref", "-m", "reset: moving to HEAD", "HEAD", before)
    git(repo, "read-tree", before)
    if hard:
        (repo / saved.path).unlink()
    memory.refresh()
    assert git(repo, "ls-tree", "-r", "--name-only", "HEAD", saved.path) == saved.path


def test_an_edit_made_while_an_update_is_written_is_kept(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    path, real = repo / saved.path, Journal.open

    def while_edited(self: Journal, operation: Operation, data: bytes | None) -> Entry:
        path.write_text(path.read_text() + "\nA person's line.\n")
        return real(self, operation, data)

    monkeypatch.setattr(Journal, "open", while_edited)
    with pytest.raises(Conflict, match="being edited"):
        memory.update(saved.id, outcome="success", reason="fast")
    assert path.read_text().endswith("A person's line.\n")
    monkeypatch.undo()
    memory.update(saved.id, outcome="success", reason="fast")
    assert "success: fast" in path.read_text()


@pytest.mark.parametrize(
    "header",
    [
        "committer Eve <eve@example.com> 1700000000 +0000\nencoding UTF-16",
        "committer Eve <eve@example.com> -5 +0000",
        "committer Eve <eve@example.com> 99999999999999999999 +0000",
        "committer Eve <eve@example.com> 300000000000 +0000",
        "committer Eve <eve@example.com> soon +0000",
        "committer Eve <eve@example.com>",
    ],
)
def test_an_odd_commit_hides_nothing(repo: Path, memory: Memory, header: str) -> None:
    hand = repo / "memory" / "by-hand.md"
    hand.write_text("# Written by hand\n")
    git(repo, "add", "-A")
    author = header.partition("\n")[0].replace("committer", "author", 1)
    odd = f"tree {git(repo, 'write-tree')}\nparent {git(repo, 'rev-parse', 'HEAD')}\n{author}\n{header}\n\nOdd\n"
    made = git(repo, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", input=odd.encode())
    git(repo, "update-ref", "HEAD", made)
    memory.refresh(full=True)
    assert titles(memory) == {"Use Postgres", "Written by hand"}
    assert memory.save(topic="db", decision="Use SQLite", reasoning="smaller").superseded
    assert len(memory.history("db").chain) == 2
    assert memory.revisions("Written by hand")
    assert not [problem for problem in memory.check()[1] if problem.level == "error"]
    memory.status()


def test_a_store_that_was_removed_does_not_look_like_an_empty_one(repo: Path, memory: Memory) -> None:
    shutil.rmtree(repo / "memory")
    memory.refresh(full=True)
    assert f"git -C {repo} restore memory" in memory.search("postgres").degraded


def test_a_question_waits_for_another_process_to_repair_the_index(repo: Path, memory: Memory) -> None:
    for file in index_folder(repo).glob("g*/words/*.term"):
        with file.open("r+b") as open_file:  # in place: a map of a file that is cut short kills who reads it
            open_file.write(bytes(file.stat().st_size))
    with Memory.open(repo, serving=True) as reader:
        look = Timer(0.2, lambda: memory.refresh(full=True))
        look.start()
        assert titles(reader) == {"Use Postgres"}
        look.join()


def test_a_decision_is_saved_over_a_damaged_index_and_replaces_what_holds(repo: Path, memory: Memory) -> None:
    before = memory.search().hits[0].id
    memory.close()
    for file in index_folder(repo).glob("g*/words/*.term"):
        with file.open("r+b") as open_file:
            open_file.write(bytes(file.stat().st_size))
    with Memory.open(repo, serving=True) as again:
        assert again.save(topic="db", decision="Use SQLite", reasoning="smaller").superseded == (before,)


def test_a_reader_that_followed_a_checkout_lets_others_write_the_index(repo: Path, memory: Memory) -> None:
    memory.close()
    with Memory.open(repo) as reader:
        git(repo, "commit", "-q", "--allow-empty", "-m", "Onward")
        assert titles(reader) == {"Use Postgres"}
        with Memory.open(repo, serving=True) as server:
            assert not server.refresh(full=True).busy


def test_a_whole_title_goes_before_the_beginning_of_an_id(memory: Memory) -> None:
    other = memory.search().hits[0].id
    for title in (other[-8:][:1], other[-8:][:4]):
        saved = memory.save(topic=f"titled {title}", decision=title, reasoning="a short one")
        assert memory.get(title)[0].id == saved.id
    assert memory.get(other[-8:])[0].id == memory.get(other[-8:][:6])[0].id == other


@pytest.mark.parametrize("removed", ["index", "index/memory", "."])
def test_a_server_whose_index_is_deleted_makes_it_anew(repo: Path, memory: Memory, removed: str) -> None:
    before = memory.search("postgres").hits[0].id
    shutil.rmtree(repo / ".git/filemem" / removed)
    assert memory.save(topic="db", decision="Use SQLite", reasoning="one file").superseded == (before,)
    shutil.rmtree(repo / ".git/filemem" / removed)
    found = memory.search("sqlite")
    assert ([hit.record.title for hit in found.hits], found.degraded) == (["Use SQLite", "Use Postgres"], "")
    shutil.rmtree(repo / ".git/filemem" / removed)
    memory.update(before, outcome="failed", reason="too much to run")
