"""Problems in the formats of other programs: SARIF 2.1.0 for code scanning, workflow commands for GitHub Actions. Pure.

Takes problems as `--json` prints them: path, line, code, level, message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

Found = Mapping[str, Any]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SARIF = {"error": "error", "warning": "warning", "hint": "note"}
_GITHUB = {"error": "error", "warning": "warning", "hint": "notice"}

# Code -> what it means, for the list of rules; docs/format.md has the whole table.
RULES: Mapping[str, str] = {
    "conflict": "A merge of this record was not finished",
    "dangling-edge": "An edge leads to a record that is not there, or to several",
    "drift": "Code that a decision governs was largely rewritten since, or is gone",
    "duplicate-id": "Two files have one id",
    "edited-superseded": "What a superseded decision says was changed",
    "evidence": "Git's history speaks against a decision",
    "forked-topic": "Several decisions on one topic hold at once",
    "forgotten": "A record that was forgotten stands here, hidden",
    "future-outcome": "An outcome is dated in the future",
    "hidden-record": "A record was moved where none is read",
    "hidden-character": "A character that nobody sees in review",
    "merge-conflict": "Both sides changed this record, and Git cannot merge the two",
    "mixed-script": "A topic mixes letters that look alike",
    "name-clash": "Two names are one on macOS and Windows",
    "outcome-differs": "The outcome and the log of outcomes disagree",
    "own-settings": "The settings in the memory's own branch name a part of it",
    "secret": "Something that looks like a secret",
    "store-missing": "The store is not in the work tree",
    "record-missing": "The work tree lost a record that HEAD has",
    "stray-record": "A record stands in a folder that is not read",
    "supersedes-cycle": "Decisions supersede each other in a circle",
    "supersedes-itself": "A decision supersedes itself",
}

# Told once of a file, in words that count commits: the same problem, whatever came since.
_COUNTING = frozenset(("drift",))


def sarif(problems: Sequence[Found], version: str) -> str:
    """Write problems as one SARIF log; locations are relative to the top of the work tree.

    Args:
        problems: what `check` found.
        version: filemem's own.
    """
    codes = sorted({problem["code"] for problem in problems})
    driver = {
        "name": "filemem",
        "version": version,
        "rules": [{"id": code, "shortDescription": {"text": _described(code)}} for code in codes],
    }
    results = [_result(problem, codes.index(problem["code"])) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2)


def github(problems: Iterable[Found]) -> str:
    """Write problems as workflow commands, one line each, which GitHub shows beside the lines they are about."""
    return "\n".join(
        f"::{_GITHUB[one['level']]} file={_property(one['path'])},line={one['line']},"
        f"title={_property('filemem: ' + one['code'])}::{_data(one['message'])}"
        for one in problems
    )


def _described(code: str) -> str:
    if code.startswith("bad-"):
        return f"A value that {code[4:]} cannot have"
    return RULES.get(code, code.replace("-", " ").capitalize())


def _result(problem: Found, rule: int) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(problem["path"]), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": problem["line"]},
    }
    told = "" if problem["code"] in _COUNTING else problem["message"]
    same = "\0".join((problem["code"], problem["path"], told))  # not the line: text above may grow
    return {
        "ruleId": problem["code"],
        "ruleIndex": rule,
        "level": _SARIF[problem["level"]],
        "message": {"text": problem["message"]},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"filemem/v1": hashlib.sha256(same.encode("utf-8", "surrogateescape")).hexdigest()[:32]},
    }


def _data(text: str) -> str:
    """Escape what would end the command or begin another: github.com/actions/toolkit, core/src/command.ts."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
