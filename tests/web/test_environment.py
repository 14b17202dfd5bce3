"""Variables of the systems that people come from: understood, or answered with why they are not needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from filemem import config as others
from filemem.errors import BadInput
from tests.support import make_repo
from tests.system.tools import cli
from tests.web.support import serving

DOCS = Path(__file__).parents[2] / "docs" / "http.md"


@pytest.mark.requirement("mama-env-port")
def test_what_is_understood() -> None:
    found = others.read_web_settings(
        {"MAMA_AUTH_TOKEN": "t", "MAMA_SERVER_PORT": "3000", "SLACK_BOT_TOKEN": "x"}
    )
    assert (found.token, found.port, found.slack_token, found.unneeded_note) == ("t", 3000, "x", "")
    assert others.read_web_settings({}) == others.WebSettings()


def test_a_port_that_is_none_is_refused() -> None:
    for port in ("many", "-1", "70000", "３", "1" * 5000):
        with pytest.raises(BadInput, match="MAMA_SERVER_PORT"):
            others.read_web_settings({"MAMA_SERVER_PORT": port})


@pytest.mark.requirement("mama-env-db", "mama-env-token", "mama-env-embedding")
def test_what_is_not_needed_is_answered_without_its_value() -> None:
    for name in (*others.UNNEEDED_PREFIXES, "LLM_API_KEY", "EMBEDDING_PROVIDER"):
        told = others.read_web_settings({name: "a secret value"}).unneeded_note
        assert told.startswith(f"{name}: not needed, ")
        assert "secret" not in told


@pytest.mark.requirement("mama-env-db")
def test_a_server_says_so_at_its_start(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "repo")
    env = {
        "MAMA_DB_PATH": "/nowhere/memory.db",
        "LLM_API_KEY": "k",
        "LLM_MODEL": "m",
        "MAMA_SERVER_PORT": "1",
    }
    with serving(folder, env, lines=3) as running:
        assert running.port != 1  # --port wins
        assert (
            "LLM_API_KEY, LLM_MODEL, MAMA_DB_PATH: not needed, there is no database" in running.told
        )
        assert "/nowhere" not in running.told
        assert running.get("/health").status == 200


@pytest.mark.requirement("mama-env-port", "mama-http-base")
def test_the_port_of_the_environment_is_listened_on(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "repo")
    with serving(folder) as first:
        free = first.port
    with serving(folder, {"MAMA_SERVER_PORT": str(free)}, ("web",)) as second:
        assert second.port == free


def test_every_variable_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([A-Z]+_[A-Z_]*)`", text, re.MULTILINE))
    used = {
        "FILEMEM_TOKEN",
        "FILEMEM_SLACK_URL",
        "MAMA_AUTH_TOKEN",
        "MAMA_SERVER_PORT",
        "SLACK_BOT_TOKEN",
        "POWERMEM_DIR",
        *(f"POWERMEM_{name.upper()}" for name in others.OWNERS),
    }
    assert documented == used | set(others.UNNEEDED_PREFIXES)


def test_every_route_is_documented() -> None:
    from filemem.web.routes import ROUTES

    text = DOCS.read_text(encoding="utf-8")
    for entry in ROUTES:
        assert f"| `{entry.method} {entry.path}`" in text or f", also `{entry.path}`" in text


def test_without_a_repository_it_says_so_at_once_and_does_not_start(tmp_path: Path) -> None:
    done = cli(tmp_path, "web", "--port", "0")
    assert (done.code, "filemem init" in done.err) == (4, True), done
