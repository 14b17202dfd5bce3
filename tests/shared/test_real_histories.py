"""Two real projects, cloned with their history: what Git says of records that filemem did not write."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from filemem.repo import Repo
from filemem.repo.arrivals import touching
from tests.support import environment, git, write
from tests.system.tools import cli, ok

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "adr-dev"
PLACES = {"filecoin-fips": "FIPS", "semantic-kernel": "docs/decisions"}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared decision record corpora are not here")


@pytest.fixture(scope="module", params=PLACES)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, with a store setting that points at its folder of records."""
    name = str(request.param)
    folder = tmp_path_factory.mktemp("clones") / name
    command = ["git", "clone", "-q", "-b", "main", str(DATA / name / "history.bundle"), str(folder)]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    write(folder / ".filemem.toml", f'store = "{PLACES[name]}"\n')
    return folder


def whole(project: Path) -> Any:
    return ok(project, "search", "--limit", "1000")["results"]


def test_provenance_is_what_git_log_says(project: Path) -> None:
    for hit in whole(project)[::7]:
        asked = ("log", "--no-merges", "--format=%H %an", "HEAD", "--", hit["path"])
        added = git(project, "log", "-M", "--diff-filter=A", *asked[1:]), git(project, "log", "--follow", *asked[1:])
        by = hit["by"]
        assert f"{by['commit']} {by['author']}" in "\n".join(added).split("\n"), hit["path"]
        for edit in by.get("edited", ()):
            assert f"{edit['commit']} {edit['author']}" in added[1].split("\n"), hit["path"]


def test_check_finds_what_is_wrong_in_the_files_and_invents_nothing(project: Path) -> None:
    answer = cli(project, "check", "--json").json
    codes = {problem["code"] for problem in answer["problems"] if problem["level"] != "hint"}
    assert codes <= {"bad-created", "bad-status", "yaml-syntax", "duplicate-key"}, codes
    assert answer["checked"] > 70


def test_base_names_only_what_the_last_commits_changed(project: Path) -> None:
    changed = set(git(project, "diff", "--name-only", "HEAD~25...HEAD").split("\n"))
    problems = cli(project, "check", "--base", "HEAD~25", "--json").json["problems"]
    assert {problem["path"] for problem in problems} <= changed


def test_why_a_record_is_as_it_is(project: Path) -> None:
    """A record is code too: what came with its lines is found by commit, a mass move of records is no reason."""
    for hit in whole(project)[::15]:
        answer = ok(project, "why", hit["path"])
        assert answer["note"].startswith("this file is a record itself")
        assert hit["id"] not in {one["id"] for one in answer["results"]}
        for one in answer["results"]:
            if one["kind"] == "touched" and one["because"].startswith("came with "):
                commit = one["because"].split()[2].rstrip(",")
                assert len(git(project, "show", "--diff-filter=A", "--name-only", "--format=", commit).split("\n")) <= 3


def test_a_line_is_followed_to_the_commit_that_git_blames(project: Path) -> None:
    repo = Repo.discover(project)
    for hit in whole(project)[::10]:
        blamed = git(project, "blame", "-s", "-l", "-L", "5,5", "HEAD", "--", hit["path"]).split()[0]
        commits = touching(repo.history, hit["path"], (5, 5)).commits
        assert commits[0].id.startswith(blamed.lstrip("^")), hit["path"]
    repo.close()
