"""A repository and an environment that want to run programs or lead elsewhere: none of it happens because we look."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.errors import BadInput, BrokenStore, Conflict
from filemem.repo.commit import Edit
from filemem.repo.run import Git, GitError, build_environment, find_git, find_repository
from tests.repo.saver import Saver
from tests.support import git, head_file, make_repo, write

PATH = "decisions/x.md"
TEXT = b"---\ntype: decision\ntopic: t\n---\n# Text\n\nBody.\r\n"
MORE = TEXT + b"more\r\n"


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.mark.parametrize("name", ["evil", "e=vil", ""])
def test_a_filter_that_only_the_index_gives_to_records_is_not_run(
    repo: Path, canary: Path, name: str
) -> None:
    git(repo, "config", f"filter.{name}.clean", f"touch {canary}; cat")
    git(repo, "config", f"filter.{name}.required", "true")
    write(repo / ".gitattributes", f"*.md filter={name}\n")
    git(repo, "add", ".gitattributes")
    (repo / ".gitattributes").unlink()
    saver = Saver(repo)
    saver.put(PATH, TEXT)
    saver.close()
    assert not canary.exists()
    assert head_file(repo, f"memory/{PATH}") is not None


def test_attributes_by_a_relative_path_are_those_from_the_top_wherever_we_stand(
    repo: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "config", "core.attributesFile", ".attrs")
    git(repo, "config", "filter.evil.clean", f"touch {canary}; cat")
    write(repo / ".attrs", "*.md filter=evil\n")
    (repo / "sub").mkdir()
    monkeypatch.chdir(repo / "sub")
    saver = Saver(repo)
    saved = saver.put(PATH, TEXT)
    saver.close()
    assert "under the filter 'evil'" in saved.uncommitted_reason
    assert not canary.exists()


def test_the_environment_does_not_lead_elsewhere(
    repo: Path, tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo(tmp_path / "other")
    before = git(other, "rev-parse", "HEAD")
    evil = write(tmp_path / "evil.sh", f"#!/bin/sh\ntouch {canary}\n")
    evil.chmod(0o755)
    for name, value in {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(evil),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={evil}'",
        "GIT_EXTERNAL_DIFF": str(evil),
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_LITERAL_PATHSPECS": "0",
        "GIT_PREFIX": "sub/",
        "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
        "PYTHONPATH": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    saver = Saver(repo)
    assert saver.put(PATH, TEXT).commit
    assert saver.change(PATH, MORE).commit
    saver.close()
    for name in [n for n in os.environ if n.startswith("GIT_")]:
        monkeypatch.delenv(name)
    assert git(other, "rev-parse", "HEAD") == before
    assert git(repo, "rev-list", "--count", "HEAD") == "3"
    assert git(repo, "log", "-1", "--format=%as") == "2025-11-20"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.sh", "other", "repo"]


def test_git_is_found_outside_the_work_tree_only(tmp_path: Path) -> None:
    work = tmp_path / "work"
    inside = write(work / "bin/git", "#!/bin/sh\n")
    outside = write(tmp_path / "bin/git", "#!/bin/sh\n")
    for program in (inside, outside):
        program.chmod(0o755)
    (tmp_path / "link").symlink_to(work / "bin")
    search = os.pathsep.join(
        ["", ".", "bin", str(work / "bin"), str(tmp_path / "link"), str(tmp_path / "bin")]
    )
    assert find_git({"PATH": search}, work) == str(outside)
    with pytest.raises(BrokenStore, match="not installed"):
        find_git({"PATH": str(work / "bin")}, work)
    assert build_environment({"PATH": f".:{tmp_path}:x", "GIT_DIR": "x", "HOME": "h"})[
        "PATH"
    ] == str(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_refused_by_git(repo: Path) -> None:
    os.chown(repo, 65_534, -1)
    saver = Saver(repo)
    with pytest.raises(GitError, match="dubious ownership"):
        saver.repo.find_item(PATH)
    saver.close()


def test_a_call_that_takes_too_long_is_stopped(repo: Path, tmp_path: Path) -> None:
    slow = write(tmp_path / "git", "#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    with pytest.raises(GitError, match="no answer"):
        Git(str(slow), find_repository(repo), dict(os.environ)).run("status", limit=0.2)


def test_a_git_that_is_too_old_is_refused(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = find_git(os.environ, repo)
    old = write(
        tmp_path / "bin/git",
        f'#!/bin/sh\nfor a; do last=$a; done\n[ "$last" = version ] && echo git version 2.30.1 || exec {real} "$@"\n',
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    saver = Saver(repo)
    with pytest.raises(BrokenStore, match=r"2\.30\.1 is too old"):
        saver.put(PATH, TEXT)
    saver.close()


@pytest.mark.parametrize("how", ["file", "folder", "store"])
def test_a_link_in_the_work_tree_or_in_head_is_not_followed(
    repo: Path, tmp_path: Path, how: str
) -> None:
    outside = tmp_path / "outside"
    write(outside / "x.md", "outside\n")
    write(outside / "decisions/x.md", "outside\n")
    (repo / "memory").mkdir()
    if how == "file":
        (repo / "memory/decisions").mkdir()
        (repo / "memory/decisions/x.md").symlink_to(outside / "x.md")
    elif how == "folder":
        (repo / "memory/decisions").symlink_to(outside)
    else:
        (repo / "memory").rmdir()
        (repo / "memory").symlink_to(outside)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "link")
    head = git(repo, "rev-parse", "HEAD")
    saver = Saver(repo)
    acts: tuple[Callable[[], object], ...] = (
        lambda: saver.put(PATH, TEXT),
        lambda: saver.edit((Edit(f"memory/{PATH}", MORE, TEXT),)),
        lambda: saver.edit((Edit(f"memory/{PATH}", None, TEXT),)),
    )
    for act in acts:
        with pytest.raises((BadInput, Conflict)):
            act()
    saver.close()
    assert (outside / "x.md").read_text() == "outside\n"
    assert (outside / "decisions/x.md").read_text() == "outside\n"
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "status", "--porcelain") == ""
