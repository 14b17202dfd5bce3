"""The record files: what is read, what is skipped, where nothing may be written."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from filemem.changes import compute_blob_id
from filemem.errors import BadInput, Conflict, FilememError, NotFound
from filemem.files import MAX_SIZE, Files, is_record
from tests.support import git, make_repo, write

ESCAPES = [
    *(
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x.md",
        "a/../../x.md",
        "a/..",
        "./x.md",
        "a//x.md",
        "a/./x.md",
        "a/",
    ),
    *("C:/x.md", "c:x.md", "\\\\host\\x.md", "a\\b.md", "..\\x.md"),
    *(
        ".git",
        ".git/config",
        "a/.git/config",
        ".GIT/config",
        ".Git/x.md",
        ".git /x.md",
        ".git./x.md",
        ".git. . /x",
    ),
    *(
        ".git::$INDEX_ALLOCATION/x.md",
        ".gitmodules",
        ".gitattributes",
        "a/.gitignore",
        ".GitModules",
    ),
    *("a\0.md", "a\n.md", "a\r.md", "a\x1b[2J.md", "a\u2028.md", "a\udcff.md", "\x7f.md"),
]


@pytest.fixture
def store(tmp_path: Path) -> Files:
    return Files(tmp_path / "work", "memory", tmp_path / "work" / "spool")


@pytest.fixture(autouse=True)
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.md").write_text("outside")
    return tmp_path / "work"


def put(files: Files, path: str, data: bytes) -> None:
    files.stage(path, data).finish()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_path_that_leaves_the_store_is_refused_for_reading_and_writing(store: Files) -> None:
    before = everything(store.work_tree.parent)
    acts: tuple[Callable[[str], object], ...] = (
        store.read,
        lambda path: put(store, path, b"x"),
        store.remove,
    )
    for path, act in product(ESCAPES, acts):
        with pytest.raises(BadInput) as caught:
            act(path)
        assert caught.value.field == "path", path
    assert everything(store.work_tree.parent) == before


def test_which_files_are_records() -> None:
    yes = [
        "x.md",
        "X.MD",
        "readme-first.md",
        "-rf.md",
        "x.markdown",
        "a/x.mdx",
        "0001-x.adoc",
        "x.rst",
    ]
    yes += ["0012-use-x/README.md", "adr/KEP-12-x/index.md", "0012-use-template-engine.md"]
    yes += [
        "0000-record-decisions.md",
        "use-jinja-template.md",
        "x-ray--20260101-a-k3f9w2ma.md",
        "nnn-x.md",
    ]
    no = [
        *(
            "README.md",
            "readme.md",
            "Readme.MD",
            "AGENTS.md",
            "agents.md",
            ".x.md",
            ".filemem-12-ab",
            "x.txt",
            "md",
        ),
        *("a/README.md", "2026/11/README.md", "2026/README.md", "index.md", "SUMMARY.md"),
        *("_template.md", "adr-000-template.md", "template-madr.md", "0000-adr-template-de.md"),
        *("NNNN-title.md", "adr-XXX-title.md", "0000-template.md", "x.org", "index.rst"),
        *(
            "vorlage.md",
            "adr-vorlage.adoc",
            "mod\u00e8le.md",
            "mode\u0300le.md",
            "0000-plantilla.md",
        ),
        *("modelo.md", "modello-adr.md", "テンプレート.md", "模板.md", "템플릿.rst"),
        *("x.md~", ".x.md.swp", "x.md.tmp"),
    ]
    assert [is_record(name) for name in yes + no] == [True] * len(yes) + [False] * len(no)


def test_a_store_that_is_not_there_is_empty(store: Files) -> None:
    assert store.scan({}) == ({}, {}, [])
    with pytest.raises(NotFound):
        store.read("decisions/x.md")
    store.remove("decisions/x.md")


def test_scan_names_blobs_as_git_does(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    write(repo / "memory/decisions/a/x.md", "# x\r\nline\n")
    found = Files(repo, "memory").scan({}).files
    expected = git(repo, "hash-object", "--no-filters", "memory/decisions/a/x.md")
    assert found["decisions/a/x.md"].blob == expected
    assert (
        compute_blob_id(b"", "sha256")
        == "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
    )


def test_scan_reads_only_what_changed(store: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write(store.root / f"decisions/{name}.md", f"# {name}\n")
    first = store.scan({}).files
    time.sleep(0.03)
    first = store.scan(first).files
    write(store.root / "decisions/b.md", "# changed\n")
    read: list[str] = []
    original = Files._read_in

    def reading(self: Files, folder: int, path: str) -> bytes | FilememError:
        read.append(path)
        return original(self, folder, path)

    monkeypatch.setattr(Files, "_read_in", reading)
    second, _, problems = store.scan(first)
    assert (read, problems) == (["decisions/b.md"], [])
    assert second["decisions/b.md"].blob == compute_blob_id(b"# changed\n")


def test_a_file_is_as_it_was_only_until_it_is_touched_or_gone(store: Files) -> None:
    file = write(store.root / "decisions/a.md", "# one\n")
    seen = store.read_state("decisions/a.md")
    assert seen is not None
    assert store.is_unchanged("decisions/a.md", *seen)
    file.write_text("# another\n")
    assert not store.is_unchanged("decisions/a.md", *seen)
    file.unlink()
    assert not store.is_unchanged("decisions/a.md", *seen)


def test_an_edit_that_keeps_size_and_time_is_seen(store: Files) -> None:
    file = write(store.root / "decisions/a.md", "# one\n")
    time.sleep(0.03)
    first = store.scan({}).files
    times = file.stat()
    file.write_text("# two\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    time.sleep(0.03)
    assert store.scan(first)[0]["decisions/a.md"].blob == compute_blob_id(b"# two\n")


def test_a_second_write_within_one_tick_of_the_clock_is_seen(store: Files) -> None:
    for i in range(20):
        file = write(store.root / "a.md", f"# {i:02}\n")
        seen = store.scan({}).files
        file.write_text(f"# {i + 50:02}\n")
        assert store.scan(seen)[0]["a.md"].blob == compute_blob_id(file.read_bytes())


def test_folder_times_show_creates_deletes_and_renames(store: Files) -> None:
    for name in ("decisions/a/x.md", "decisions/b/y.md", "observations/2025/z.md"):
        write(store.root / name, "# x\n")
    time.sleep(0.03)
    before, times, _ = store.scan({})
    assert store.list_changed_folders(times) == set()
    write(store.root / "decisions/a/new/deep/n.md", "# n\n")
    (store.root / "decisions/b/y.md").unlink()
    (store.root / "observations/2025").rename(store.root / "observations/2026")
    changed = store.list_changed_folders(times)
    assert changed == {"decisions/a", "decisions/b", "observations", "observations/2025"}
    assert store.scan(before, folders=changed)[0].keys() == store.scan({})[0].keys()
    assert store.scan({})[0].keys() == {
        "decisions/a/x.md",
        "decisions/a/new/deep/n.md",
        "observations/2026/z.md",
    }


def test_what_is_no_plain_file_is_skipped_with_the_reason(
    store: Files, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store.root / "good.md", "# good\n")
    folder = store.root / "decisions"
    folder.mkdir()
    (folder / "link.md").symlink_to(work.parent / "secret.md")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "linked").symlink_to(work.parent)
    os.mkfifo(folder / "pipe.md")
    with (folder / "huge.md").open("wb") as file:
        file.truncate(10 << 30)
    with (folder / "large.md").open("wb") as file:
        file.truncate(MAX_SIZE + 1)
    (folder / "folder.md").mkdir()
    (folder / "bad\nname.md").write_text("# x\n")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md"))).write_text("# x\n")
    monkeypatch.chdir(folder)  # a socket's name may have about a hundred bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
    start = time.process_time()
    found, _, problems = store.scan({})
    assert time.process_time() - start < 5  # nothing is waited for, or read whole
    assert list(found) == ["good.md"]
    assert {(p.path, p.code) for p in problems} == {
        ("decisions/link.md", "unreadable"),
        ("decisions/loop.md", "unreadable"),
        ("decisions/linked", "unreadable"),
        ("decisions/pipe.md", "unreadable"),
        ("decisions/socket.md", "unreadable"),
        ("decisions/huge.md", "unreadable"),
        ("decisions/large.md", "unreadable"),
        ("decisions/bad\nname.md", "unreadable"),
        ("decisions/\\udcff.md", "unreadable"),
    }


@pytest.mark.parametrize("name", ["link.md", "pipe.md", "large.md", "folder.md"])
def test_reading_what_is_no_plain_file_is_refused_at_once(
    store: Files, work: Path, name: str
) -> None:
    store.root.mkdir()
    (store.root / "link.md").symlink_to(work.parent / "secret.md")
    os.mkfifo(store.root / "pipe.md")
    (store.root / "large.md").write_bytes(b"x" * (MAX_SIZE + 1))
    (store.root / "folder.md").mkdir()
    start = time.process_time()
    with pytest.raises(BadInput):
        store.read(name)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("link", ["memory", "memory/decisions", "memory/decisions/a"])
def test_a_linked_folder_leads_nowhere(store: Files, work: Path, link: str) -> None:
    outside = work.parent / "outside"
    write(outside / "decisions/a/x.md", "# outside\n")
    write(outside / "a/x.md", "# outside\n")
    write(outside / "x.md", "# outside\n")
    before = everything(outside)
    (work / link).parent.mkdir(parents=True, exist_ok=True)
    (work / link).symlink_to(outside)
    for action in (
        lambda: store.read("decisions/a/x.md"),
        lambda: put(store, "decisions/a/x.md", b"mine"),
        lambda: store.remove("decisions/a/x.md"),
    ):
        with pytest.raises(BadInput, match="link"):
            action()
    found, _, problems = store.scan({})
    assert (found, [p.code for p in problems]) == ({}, ["unreadable"])
    assert everything(outside) == before


def test_nothing_shows_before_publish_and_nothing_stays_after_discard(store: Files) -> None:
    staged = store.stage("decisions/a/b/x.md", b"# x\n")
    staged.sync()
    assert store.scan({})[0] == {}
    staged.discard()
    assert everything(store.work_tree) == {}
    staged = store.stage("decisions/a/b/x.md", b"# x\n")
    staged.publish(None)
    # A second name that `discard` removes would change the file's times after Git has read them.
    assert (store.root / "decisions/a/b/x.md").stat().st_nlink == 1
    staged.sync_folders(set())
    staged.discard()
    assert everything(store.work_tree) == {"memory/decisions/a/b/x.md": b"# x\n"}


@pytest.mark.parametrize(("there", "replace"), [("other", None), ("other", b"x"), (None, b"x")])
def test_a_file_is_put_only_where_the_place_is_as_it_was(
    store: Files, there: str | None, replace: bytes | None
) -> None:
    if there is not None:
        write(store.root / "x.md", there)
    staged = store.stage("x.md", b"mine")
    with pytest.raises(Conflict):
        staged.publish(replace)
    staged.discard()
    assert store.exists("x.md") == (there is not None)
    assert everything(store.work_tree) == ({} if there is None else {"memory/x.md": b"other"})
    if there is not None:
        with pytest.raises(Conflict):
            store.remove("x.md", b"x")
        staged = store.stage("x.md", b"mine")
        staged.publish(b"other")
        staged.discard()
        assert store.read("x.md") == b"mine"


def test_more_than_a_mebibyte_is_refused(store: Files) -> None:
    put(store, "a.md", b"x" * MAX_SIZE)
    with pytest.raises(BadInput):
        put(store, "b.md", b"x" * (MAX_SIZE + 1))


def test_a_private_folder_is_hidden_from_git_before_anything_stands_in_it(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    files = Files(repo, "memory")
    files.hide_folder("private")
    assert (repo / "memory/private/.gitignore").read_text() == "*\n"
    files.hide_folder("private")
    put(files, "private/observations/x.md", b"# mine\n")
    assert git(repo, "status", "--short", "--untracked-files=all") == ""
    (repo / "memory/private/.gitignore").write_text("!*\n")
    with pytest.raises(Conflict):
        files.hide_folder("private")
