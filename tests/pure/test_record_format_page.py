"""docs/format.md cannot lie: its records are what is written, its keys and codes are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from filemem.record import KEYS, Outcome, build_record_path, parse_record, render_record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
RECORDS = re.findall(
    r"`((?:decisions|checkpoints|observations)/\S+\.md)`:\n\n```markdown\n(.*?)```", PAGE, re.DOTALL
)


@pytest.mark.parametrize(("path", "text"), RECORDS[:3], ids=[path for path, _ in RECORDS[:3]])
def test_complete_records_are_written_so(path: str, text: str) -> None:
    parsed = parse_record(text.encode(), path)
    assert parsed.record is not None
    assert parsed.problems == ()
    replaced = re.findall(r"^Replaces \[(.*)\]\(\.\./(.*)\)$", text, re.MULTILINE)
    paths = [(title, f"decisions/2025/{name}") for title, name in replaced]
    assert render_record(parsed.record, paths).decode() == text
    assert build_record_path(parsed.record) == path


def test_a_heading_is_enough() -> None:
    assert len(RECORDS) == 4
    path, text = RECORDS[3]
    parsed = parse_record(text.encode(), path)
    assert parsed.record is not None
    assert parsed.record.title == "No cache at all"
    assert {problem.level for problem in parsed.problems} == {"hint"}


def test_every_key_and_choice_is_described() -> None:
    for key in KEYS:
        assert f"`{key.name}`" in PAGE, key.name
        for choice in key.choices:
            assert f"`{choice}`" in PAGE, choice


def test_every_problem_is_described() -> None:
    source = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "filemem" / "record").glob("*.py")
    )
    stated = r'(?:Problem\("", [^"]*?|YamlRefusal\(|add_problem\([^"]*?)"([a-z]+-[a-z-]+|conflict|encoding)"'
    codes = set(re.findall(stated, source))
    assert len(codes) > 15
    missing = {code for code in codes if f"`{code}`" not in PAGE and not code.startswith("bad-")}
    assert not missing


def test_the_log_of_the_page() -> None:
    log = re.search(r"```markdown\n(## Outcomes\n.*?)```", PAGE, re.DOTALL)
    assert log
    record = parse_record(f"# T\n\n{log[1]}".encode(), "x.md").record
    assert record is not None
    assert record.outcomes[-1] == Outcome(1764028800000, "failed", "evicts too early under load")
