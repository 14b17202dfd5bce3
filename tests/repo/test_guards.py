"""The guards of tests/conftest.py hold: no test reaches the home folder or Git configuration of whoever runs it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from tests.support import git, make_repo


def test_home_is_a_folder_of_this_session(guarded_home: Path) -> None:
    assert Path.home() == guarded_home
    assert Path("~").expanduser() == guarded_home
    assert guarded_home != Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert "pytest" in str(guarded_home)


def test_git_sees_no_configuration_but_the_repositorys(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    scopes = {row.split("\t")[0] for row in git(repo, "config", "--list", "--show-scope").splitlines()}
    assert scopes == {"local"}
    git(repo, "config", "--global", "test.guard", "yes")
    assert (Path.home() / ".gitconfig").exists() or (Path.home() / ".config/git/config").exists()
    git(repo, "config", "--global", "--unset", "test.guard")


def test_the_environment_names_no_repository_and_no_settings() -> None:
    left = {name for name in os.environ if name.startswith(("GIT_", "FILEMEM_"))}
    assert left <= {"GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"}
