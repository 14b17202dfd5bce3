"""The protocol makers' own suite and their own client, against our server.

Each check of the suite passes, or stands in `expected.toml` with the reason why we do not offer what it asks for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filemem.dialects.native import TOOLS
from filemem.server.calls import ANSWER_KEY
from tests.conformance import npm
from tests.conformance.bridge import bridged
from tests.support import make_repo
from tests.system.tools import ok, serving_http

HOST = "dns-rebinding-protection/localhost-host-rebinding-rejected"
EXPECTED = tomllib.loads(Path(__file__).with_name("expected.toml").read_text())


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """The programs are there, or why they are not."""
    if reason := npm.missing():
        pytest.skip(f"{reason}; python -m tests.conformance.npm installs them")


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server that holds what the suite asks for by name."""
    line = [sys.executable, "-m", "tests.conformance.served"]
    server = subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert server.stderr is not None
    try:
        yield server.stderr.readline().rpartition(" ")[2].strip()
    finally:
        server.terminate()
        server.wait(20)
        server.stderr.close()


def run(url: str, out: Path, *options: str) -> dict[str, set[str]]:
    """Run the suite; the ids of failed checks by scenario, an empty set for one that passed."""
    line = [str(npm.NODE), str(npm.CONFORMANCE), "server", "--url", url, "-o", str(out), *options]
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=300)
    found: dict[str, set[str]] = {}
    for file in out.glob("server-*/checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))
        checks = json.loads(file.read_text())
        found[scenario] = {check["id"] for check in checks if check["status"] == "FAILURE"}
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_check_passes_or_has_its_reason(revision: str, tmp_path: Path) -> None:
    with serving() as url:
        checked(url, revision, tmp_path, set())


def test_every_check_passes_over_standard_input_and_output(tmp_path: Path) -> None:
    """After a handshake, where no SDK answers; a bridge has no door that refuses a foreign Host."""
    with bridged() as url:
        checked(url, "2025-11-25", tmp_path, {HOST})


def checked(url: str, revision: str, out: Path, further: set[str]) -> None:
    """Run the suite; what fails is expected, and the `further` checks, and nothing else."""
    found = run(url, out, "--requirements", revision)
    failed = {f"{scenario}/{check}" for scenario, checks in found.items() for check in checks}
    expected = further | {
        check
        for group in EXPECTED["group"]
        if revision in group["revisions"]
        for check in group["checks"]
    }
    assert sorted(failed - expected) == []
    assert sorted(expected - failed) == [], (
        "expected to fail, and passes: take it out of expected.toml"
    )
    assert len([scenario for scenario, checks in found.items() if not checks]) >= 15


def test_every_expected_failure_has_a_reason() -> None:
    for group in EXPECTED["group"]:
        assert len(group["reason"]) > 20
        assert group["checks"]
        assert set(group["revisions"]) <= {"2025-11-25", "2026-07-28"}


def test_the_server_of_a_project_passes_what_asks_for_no_names(tmp_path: Path) -> None:
    with serving_http(make_repo(tmp_path / "repo")) as url:
        for scenario in ("tools-list", "dns-rebinding-protection"):
            assert run(url, tmp_path / scenario, "--scenario", scenario) == {scenario: set()}


def inspect(repo: Path, *options: str) -> Any:
    """Ask by the inspector's command line, over standard input and output."""
    server = [sys.executable, "-m", "filemem", "-C", str(repo), "serve"]
    line = [str(npm.NODE), str(npm.INSPECTOR), "--cli", *options, "--", *server]
    done = subprocess.run(
        line, check=False, capture_output=True, text=True, timeout=60, env={**os.environ}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_inspector_is_a_second_real_client(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    listed = inspect(repo, "--method", "tools/list", "--strict")["tools"]
    assert [tool["name"] for tool in listed] == [tool.name for tool in TOOLS]
    arguments = ["topic=caching", "decision=Use Redis", "reasoning=Shared between workers"]
    saved = inspect(repo, "--method", "tools/call", "--tool-name", "save", "--tool-arg", *arguments)
    assert saved["_meta"][ANSWER_KEY]["success"] is True
    assert ok(repo, "get", saved["_meta"][ANSWER_KEY]["id"])["count"] == 1
