"""Small folders as other tools and teams write them, and what filemem must say of them.

Each case is a file in `cases`: what stands in it (`input`), in which commits it came (`commits`),
what a search says of its records (`expect`), and what commands print and write (`run`).
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support import git, make_repo, write
from tests.system.tools import cli, ok

CASES = Path(__file__).parent / "cases"
DAY = "2026-01-02T10:00:00Z"
NOW = 1_767_350_000  # 2026-01-02T10:33:20Z, the day before in the zone of the cases with `tz`


def names() -> list[str]:
    """The cases."""
    return sorted(path.stem for path in CASES.glob("*.yaml"))


@pytest.mark.parametrize("name", names())
def test_a_folder_that_others_wrote_says_what_they_mean(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))
    repo = make_repo(tmp_path / "repo", commit=False)
    for step in case.get("commits", [{}]):
        add(repo, case.get("input", {}), step)
    store = case.get("store", "memory")
    if expected := case.get("expect"):
        found = ok(repo, "--store", store, "search", "-n", "200")["results"]
        assert differences(found, store, expected) == []
    for step in case.get("run", ()):
        if step.get("tz"):
            clock = SimpleNamespace(time_ns=lambda: NOW * 10**9)
            monkeypatch.setattr("filemem.memory.store.time", clock)
            monkeypatch.setenv("TZ", "XXX+12")
            time.tzset()
        try:
            run(repo, store, step)
        finally:
            monkeypatch.undo()
            time.tzset()


def add(repo: Path, files: dict[str, str], step: dict[str, Any]) -> None:
    """Make one commit of a case."""
    for old, new in step.get("move", ()):
        (repo / new).parent.mkdir(parents=True, exist_ok=True)
        git(repo, "mv", old, new)
    for path, text in step.get("append", {}).items():
        write(repo / path, (repo / path).read_text(encoding="utf-8") + text)
    if "branch" in step:
        git(repo, "switch", "-q", *(["-c"] if step.get("new") else []), step["branch"])
    for path in step.get("files", files):
        write(repo / path, files[path])
    at = step.get("date", DAY)
    git(repo, "add", "-A")
    git(
        repo,
        *("commit", "-q", "--allow-empty", "-m", step.get("message", "add")),
        GIT_AUTHOR_NAME=step.get("author", "Ada Example"),
        GIT_AUTHOR_DATE=at,
        GIT_COMMITTER_DATE=at,
    )


def differences(
    found: list[dict[str, Any]], store: str, expected: dict[str, dict[str, Any] | None]
) -> list[str]:
    """What a search says of records that is not what a case says."""
    paths = {hit["id"]: hit["path"].removeprefix(f"{store}/") for hit in found}
    hits = {paths[hit["id"]]: hit for hit in found}
    wrong = []
    for path, wanted in expected.items():
        if wanted is None or path not in hits:
            wrong += [f"{path}: {path in hits}"] if (wanted is None) == (path in hits) else []
            continue
        read = stated(hits[path], paths)
        for key, value in wanted.items():
            fits = read["status"] in value if key == "status_in" else read[key] == value
            if key == "decision":
                fits = value in read["decision"]
            if not fits:
                wrong.append(f"{path}: {key} is {read.get(key)!r}, not {value!r}")
    return wrong


def stated(hit: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
    """What a search says of one record, in the words of the cases."""
    return {
        "holds": bool(hit.get("holds")),
        "status": hit.get("status"),
        "date": (hit.get("created") or "")[:10],
        "title": hit.get("title"),
        "superseded_by": sorted(paths.get(id_, id_) for id_ in hit.get("superseded_by", ())),
        "tags": hit.get("tags", []),
        "author": (hit.get("by") or {}).get("author"),
        "decision": hit.get("decision", ""),
    }


def run(repo: Path, store: str, step: dict[str, Any]) -> None:
    """Run one command of a case, and compare what it printed and wrote."""
    words = [word.replace("{nfc}", "é") for word in step["words"]]
    if words[0] == "git":
        git(repo, *words[1:])
        return
    if words[0] == "commit":
        add(repo, {}, {"message": "more"})
        return
    done = cli(repo, "--store", store, *words)
    printed = done.out + done.err
    if "code" in step:
        assert (done.code != 0) == (step["code"] != 0), printed
    matches(printed, step, "")
    if "file" in step:
        [*_, file] = sorted(repo.glob(step["file"]))
        matches(file.read_text(encoding="utf-8"), step, "file_")
    if "names_hasnt" in step:
        listed = git(repo, "ls-files", "-z").split("\0")
        assert not [path for path in listed if re.search(step["names_hasnt"], path)]


def matches(text: str, step: dict[str, Any], kind: str) -> None:
    """Compare a text with the patterns that it must and must not have."""
    for pattern in step.get(f"{kind}has", ()):
        assert re.search(pattern.replace("{today}", "2026-01-01"), text, re.MULTILINE), text
    for pattern in step.get(f"{kind}hasnt", ()):
        assert not re.search(pattern, text, re.MULTILINE), text
