"""Promise: one command each makes the database, names repositories, brings them in and says how they stand."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest

from filemem.errors import BadInput
from filemem.repo.mirror import resolve_source
from tests.org.hub import Hub
from tests.support import write
from tests.system.tools import cli

ADDRESSES = {
    "https://git.example.org/team/api.git": "git.example.org/team/api",
    "https://git.example.org:8443/team/api/": "git.example.org:8443/team/api",
    "ssh://git@git.example.org/api": "git.example.org/api",
    "git@git.example.org:team/api.git": "git.example.org/team/api",
}
REFUSED = (
    "ext::sh -c id",
    "file:///srv/api",
    "http://git.example.org/api",
    "git://git.example.org/api",
    "https://ada:secret@git.example.org/api",
    "--upload-pack=id",
    "-c core.sshCommand=id",
    "ssh://-oProxyCommand=id/api",
    "-oProxyCommand@host:x",
    "git@-oProxyCommand:x",
    "https://git.example.org/api\n--upload-pack=id",
    "/nowhere/at/all",
    f"ssh://ghp_{'a1B2c3D4e5F6' * 3}@git.example.org/api",
    f"glpat-{'x1Y2z3' * 4}@git.example.org:team/api",
    f"ssh://{'0123456789abcdef' * 3}@git.example.org/api",
)


@pytest.mark.parametrize(("address", "name"), ADDRESSES.items())
def test_an_address_has_one_name_and_is_kept(address: str, name: str, tmp_path: Path) -> None:
    assert resolve_source(address, tmp_path) == (name, address)


@pytest.mark.parametrize("address", REFUSED)
def test_what_names_a_program_an_option_or_a_password_is_refused(
    address: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="no repository that can be read"):
        resolve_source(address, tmp_path)


def test_a_database_is_made_filled_and_emptied(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    hub = Hub(tmp_path, "hub", random.Random(1))
    hub.push()
    write(tmp_path / "list", f"# all of them\n{hub.path}\n\n")
    with psycopg.connect(f"{template}postgres", autocommit=True) as con:
        con.execute("create database commands")
    monkeypatch.setenv("FILEMEM_ORG_DSN", f"{template}commands")
    early = cli(tmp_path, "org", "status")
    assert (early.code, "filemem org init" in early.err) == (7, True)
    assert "words by rarity" in cli(tmp_path, "org", "init").out
    assert cli(tmp_path, "org", "init").out == "the database is ready\n"
    assert (
        cli(tmp_path, "org", "add", "hub", "--from", str(tmp_path / "list")).out
        == "1 added; 0 there before\n"
    )
    assert cli(tmp_path, "org", "work", "--once").out in (
        f"{len(hub.files)} records changed\n",
        "1 record changed\n",
    )
    (row,) = cli(tmp_path, "org", "status", "--json").json["repositories"]
    assert (row["repository"], row["records"]) == (str(hub.path), len(hub.files))
    write(hub.path / ".git/HEAD", "ref: refs/heads/\xff")
    assert "1 failure: `filemem org status` says why" in cli(tmp_path, "org", "work", "--once").out
    assert f"failed: {hub.path}" in cli(tmp_path, "org", "status").out
    assert cli(tmp_path, "org", "purge", "decision_none").code == 4
    assert cli(tmp_path, "org", "remove", str(hub.path)).out.startswith(f"{row['records']} record")
    assert "no repository yet" in cli(tmp_path, "org", "status").out
    assert cli(tmp_path, "org", "remove", "hub").code == 4
    with psycopg.connect(f"{template}postgres", autocommit=True) as con:
        con.execute("drop database commands with (force)")


def test_without_a_database_or_its_driver_the_answer_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "FILEMEM_ORG_DSN" in cli(tmp_path, "org", "status").err
    monkeypatch.setenv("FILEMEM_ORG_DSN", f"host={tmp_path} dbname=x")
    away = cli(tmp_path, "org", "status")
    assert (away.code, "that PostgreSQL runs" in away.err) == (7, True)
    write(tmp_path / ".filemem.toml", "org_dsn = 'host=evil'\n")
    assert f'socket "{tmp_path}' in cli(tmp_path, "org", "status").err, "the user's own, not evil"
    (tmp_path / ".filemem.toml").unlink()
    monkeypatch.delattr("filemem.org.commands")
    monkeypatch.delitem(sys.modules, "filemem.org.commands")
    monkeypatch.delitem(sys.modules, "filemem.org.postgres")
    monkeypatch.delitem(sys.modules, "filemem.org.connection")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    lacking = cli(tmp_path, "org", "status")
    assert (lacking.code, "pip install 'filemem[org]'" in lacking.err) == (7, True)
