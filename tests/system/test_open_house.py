"""What greets a contributor: workflows that run our own commands, hooks that are ours, and one place for the owner."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
OURS = re.compile(r"^(make |\.ci/)")


def read(path: Path) -> dict[Any, Any]:
    value: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return value


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_a_person_can_run(workflow: Path) -> None:
    targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"))
    commands = [step["run"] for step in steps(workflow) if OURS.match(step.get("run", ""))]
    assert commands
    for command in commands:
        made = command.removeprefix("make ")
        assert made in targets or (ROOT / command).is_file(), command


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_right_that_it_does_not_need(workflow: Path) -> None:
    assert read(workflow)["permissions"] == {"contents": "read"}
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    for job in read(workflow)["jobs"].values():
        assert job["timeout-minutes"] <= 60


def test_a_release_keeps_no_token() -> None:
    text = (GITHUB / "workflows/release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    assert read(GITHUB / "workflows/release.yml")["jobs"]["pypi"]["permissions"] == {
        "id-token": "write"
    }


def test_every_python_of_the_package_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = {row.rpartition(" ")[2] for row in project["classifiers"] if ":: 3." in row}
    matrix = read(GITHUB / "workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert stated <= set(matrix["python"])
    assert {row["os"] for row in matrix["include"]} == {"macos-latest"}


def test_our_own_commits_are_checked_by_the_hook_that_we_publish() -> None:
    published = {hook["id"]: hook for hook in read_hooks()}["filemem-lint"]
    hooks = [
        hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]
    own = {hook["id"]: hook for hook in hooks}["filemem-lint"]
    assert own["entry"] == f".venv/bin/{published['entry']}"
    assert own["files"] == published["files"]


def read_hooks() -> list[dict[str, Any]]:
    hooks: list[dict[str, Any]] = yaml.safe_load(
        (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    )
    return hooks


@pytest.mark.parametrize(
    "form", sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.stem
)
def test_a_form_for_issues_can_be_read(form: Path) -> None:
    fields = [field for field in read(form).get("body", ()) if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(names) == len(set(names))
    assert form.stem == "config" or names


def test_nothing_of_the_open_house_names_an_address_by_hand() -> None:
    pages = [
        ROOT / "SECURITY.md",
        ROOT / "CODE_OF_CONDUCT.md",
        *GITHUB.rglob("*.yml"),
        *GITHUB.rglob("*.md"),
    ]
    for page in pages:
        assert "OWNER" not in page.read_text(encoding="utf-8"), page
