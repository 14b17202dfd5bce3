"""What a release is made of: one version, one table of addresses, and files that the registries take."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from filemem import VERSION
from tests.support import git, make_repo, write
from tests.system.tools import ok
from tools import release
from tools.readme import readme

ROOT = Path(__file__).parents[2]
TEXT, URI = {"type": "string", "minLength": 1}, {"type": "string", "pattern": "^https://"}
EXACT = {"type": "string", "pattern": r"^\d+\.\d+\.\d+([ab]\d+|rc\d+)?$"}
SERVER = {  # what the schema of 2025-12-11 and the registry ask for, in our words
    "type": "object",
    "required": ["$schema", "name", "description", "version", "packages"],
    "additionalProperties": False,
    "properties": {
        "$schema": {
            "const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
        },
        "name": {
            "type": "string",
            "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
            "minLength": 3,
            "maxLength": 200,
        },
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": EXACT,
        "websiteUrl": URI,
        "repository": {
            "type": "object",
            "required": ["url", "source"],
            "properties": {"url": URI, "source": TEXT},
        },
        "packages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["registryType", "identifier", "version", "transport"],
                "additionalProperties": False,
                "properties": {
                    "registryType": {"const": "pypi"},
                    "identifier": TEXT,
                    "version": EXACT,
                    "runtimeHint": {"const": "uvx"},
                    "transport": {"const": {"type": "stdio"}},
                    "packageArguments": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["type", "value"],
                            "properties": {"value": TEXT},
                        },
                    },
                },
            },
        },
    },
}
MANIFEST = {  # what the schema 0.4 asks for of a bundle whose type is uv, in our words
    "type": "object",
    "required": ["manifest_version", "name", "version", "description", "author", "server"],
    "additionalProperties": False,
    "properties": {
        "manifest_version": {"const": "0.4"},
        **dict.fromkeys(("name", "display_name", "description", "license"), TEXT),
        **dict.fromkeys(("homepage", "documentation", "support"), URI),
        "version": EXACT,
        "keywords": {"type": "array", "items": TEXT},
        "author": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"name": TEXT, "url": URI},
        },
        "repository": {
            "type": "object",
            "required": ["type", "url"],
            "additionalProperties": False,
            "properties": {"type": TEXT, "url": URI},
        },
        "server": {
            "type": "object",
            "required": ["type", "entry_point"],
            "additionalProperties": False,
            "properties": {
                "type": {"const": "uv"},
                "entry_point": TEXT,
                "mcp_config": {
                    "type": "object",
                    "required": ["command"],
                    "additionalProperties": False,
                    "properties": {
                        "command": TEXT,
                        "args": {"type": "array", "items": TEXT},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                },
            },
        },
        "user_config": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["type", "title", "description"],
                "additionalProperties": False,
                "properties": {
                    "type": {"enum": ["string", "number", "boolean", "directory", "file"]},
                    "title": TEXT,
                    "description": TEXT,
                    "required": {"type": "boolean"},
                },
            },
        },
        "compatibility": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "platforms": {"type": "array", "items": {"enum": ["darwin", "win32", "linux"]}},
                "runtimes": {
                    "type": "object",
                    "required": ["python"],
                    "additionalProperties": False,
                    "properties": {"python": TEXT},
                },
            },
        },
    },
}


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What a value has against a schema."""
    return [str(one) for one in jsonschema_rs.validator_for(schema).iter_errors(value)]


def test_server_json_is_what_the_registry_takes() -> None:
    made = release.server_json()
    assert problems(SERVER, made) == []
    assert {made["version"], made["packages"][0]["version"]} == {VERSION}
    assert problems(SERVER, {**made, "description": "x" * 101})
    assert f"<!-- mcp-name: {made['name']} -->" in readme(ROOT, made["repository"]["url"])


def test_the_readme_of_the_package_has_no_link_into_a_folder() -> None:
    text = readme(ROOT, "https://github.com/ada/filemem/")
    assert "](https://github.com/ada/filemem/blob/HEAD/docs/start.md)" in text
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", text) == []
    assert "io.github.ada/filemem" in text


@pytest.mark.parametrize("set_as", ["the folder", "${user_config.folder}"])
def test_the_bundle_serves_the_folder_or_the_personal_memory(
    repo: Path, tmp_path: Path, set_as: str
) -> None:
    files = release.bundle()
    manifest = json.loads(files["manifest.json"])
    assert problems(MANIFEST, manifest) == []
    assert manifest["server"]["entry_point"] in files
    assert f'dependencies = ["filemem=={VERSION}"]' in files["pyproject.toml"]
    ok(
        repo,
        "save",
        "decision",
        "--topic",
        "caching",
        "--decision",
        "Use an LRU cache",
        "--reasoning",
        "Quick",
    )
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    asked = {"name": "search", "arguments": {"query": "caching"}}
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    done = subprocess.run(
        [sys.executable, str(tmp_path / manifest["server"]["entry_point"])],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "FILEMEM_FOLDER": str(repo) if set_as == "the folder" else set_as},
        check=True,
        timeout=60,
    )
    answers = {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}
    assert len(answers[1]["tools"]) == 7
    assert ("Use an LRU cache" in json.dumps(answers[2])) is (set_as == "the folder")


def test_what_is_built_is_small_and_whole(tmp_path: Path) -> None:
    wheel, bundle, _, server = sorted(
        release.build(tmp_path), key=lambda path: path.suffix != ".whl"
    )
    assert wheel.stat().st_size < release.LARGEST
    assert json.loads(server.read_text()) == release.server_json()
    with zipfile.ZipFile(bundle) as archive:
        assert set(archive.namelist()) == set(release.bundle())
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.startswith(("tests/", "bench/", "tools/", "docs/"))]
    assert "filemem/model/model.safetensors" in names


def test_placeholders_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["release"])
    monkeypatch.setattr(
        release, "project", lambda: {"urls": {"Source": "https://github.com/OWNER/filemem"}}
    )
    assert release.main() == 1
    assert "[project.urls] Source names OWNER" in capsys.readouterr().err
    monkeypatch.setattr(
        release, "project", lambda: {"urls": {"Source": "https://github.com/ada/filemem"}}
    )
    assert release.placeholders() == []


def test_a_placeholder_among_the_reviewers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "repo")
    write(repo / "pyproject.toml", "[project]\nurls = {}\n")
    write(repo / "CHANGELOG.md", f"## {VERSION}\n")
    write(repo / ".github/CODEOWNERS", "* @OWNER\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Begin")
    monkeypatch.setattr(release, "ROOT", repo)
    assert release.unready() == [".github/CODEOWNERS:1 names OWNER"]


def test_the_version_and_the_addresses_stand_in_one_place() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.urls]")[2].partition("\n[")[0]
    assert text.count("https://") == table.count("https://") == 5
    assert re.search(r"(?m)^version *=", text) is None
