"""Decision records of four real projects, read and compared with what their authors state (ground truth)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from filemem.record import (
    ParsedRecord,
    build_reference_index,
    format_time,
    parse_record,
    render_record,
    resolve_reference,
)

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "adr-dev"
CORPORA = ("filecoin-fips", "govuk-aws", "moj-modernisation", "semantic-kernel")

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the shared decision record corpora are not here"
)

# The first known word of a status as its authors wrote it -> ours.
STATUS = {
    **dict.fromkeys(("accepted", "approved", "final", "active", "partly"), "accepted"),
    **dict.fromkeys(
        ("proposed", "draft", "pending", "deferred", "last", "experimental", "in"), "proposed"
    ),
    **dict.fromkeys(("rejected", "withdrawn"), "rejected"),
    "superseded": "deprecated",
}


@dataclass(frozen=True)
class Corpus:
    truth: dict[str, list[dict[str, str]]]
    parsed: dict[str, ParsedRecord]


def load(name: str) -> Corpus:
    folder = DATA / name
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    files = folder / "files"
    parsed = {
        str(path.relative_to(files)): parse_record(path.read_bytes(), str(path.relative_to(files)))
        for path in sorted(files.rglob("*.md"))
    }
    return Corpus(truth, parsed)


@pytest.fixture(scope="module", params=CORPORA)
def corpus(request: pytest.FixtureRequest) -> Corpus:
    return load(request.param)


def of(corpus: Corpus, file: str):  # type: ignore[no-untyped-def]
    record = corpus.parsed[file].record
    assert record is not None, file
    return record


def test_every_file_is_read(corpus: Corpus) -> None:
    for file, parsed in corpus.parsed.items():
        assert parsed.record is not None, file
        assert parsed.record.title, file
        assert parsed.record.type == "decision"


def test_titles(corpus: Corpus) -> None:
    wrong = [
        (row["file"], row["title"], of(corpus, row["file"]).title)
        for row in corpus.truth["records"]
        if row["title"] and of(corpus, row["file"]).title != row["title"]
    ]
    assert not wrong


def test_status(corpus: Corpus) -> None:
    wrong = []
    for row in corpus.truth["records"]:
        words = "".join(c if c.isalpha() else " " for c in row["status"].casefold()).split()
        if of(corpus, row["file"]).status != STATUS[words[0]]:
            wrong.append((row["file"], row["status"], of(corpus, row["file"]).status))
    assert not wrong


def test_dates(corpus: Corpus) -> None:
    wrong = []
    for row in corpus.truth["records"]:
        created = of(corpus, row["file"]).created
        found = format_time(created)[:10] if created is not None else None
        if found != row["created"]:
            wrong.append((row["file"], row["created"], found))
    assert not wrong


def test_every_stated_edge_resolves(corpus: Corpus) -> None:
    records = [parsed.record for parsed in corpus.parsed.values() if parsed.record]
    index = build_reference_index(records)
    number = {of(corpus, row["file"]).id: row["id"] for row in corpus.truth["records"]}
    found = set()
    for record in records:
        old = [resolve_reference(r, index) for r in record.superseded_by]
        new = [resolve_reference(r, index) for r in record.supersedes or ()]
        found |= {(number[record.id], number[r], "old") for r in old if r}
        found |= {(number[r], number[record.id], "new") for r in new if r}
    wanted = {(e["old"], e["new"], side) for e in corpus.truth["edges"] for side in e["stated_in"]}
    assert found == wanted


def test_problems_are_the_known_ones(corpus: Corpus, request: pytest.FixtureRequest) -> None:
    """Records of other makers have gaps (hints), and a few values that are truly wrong."""
    counts = Counter(
        problem.code
        for p in corpus.parsed.values()
        for problem in p.problems
        if problem.level != "hint"
    )
    allowed = {"bad-created", "bad-status", "bad-topic", "yaml-syntax", "duplicate-key"}
    assert not set(counts) - allowed, counts
    assert sum(counts.values()) <= 6, counts


def test_nothing_of_the_text_is_lost(corpus: Corpus) -> None:
    """Every word of a body is in the title, the text or a known section."""
    for file, parsed in corpus.parsed.items():
        record = parsed.record
        assert record is not None
        source = (DATA / request_folder(file) / "files" / file).read_text(encoding="utf-8-sig")
        body = source.split("\n---", 1)[1].split("\n", 1)[1] if source.startswith("---") else source
        shown = " ".join((record.title, record.text, record.decision, *record.rejected))
        missing = set(body.split()) - set(shown.split())
        assert not {word for word in missing if word.strip("#-*\\`+ 0123456789.")} - {"Decision"}, (
            file
        )


def request_folder(file: str) -> str:
    return next(name for name in CORPORA if (DATA / name / "files" / file).exists())


def test_a_rendered_copy_reads_the_same(corpus: Corpus) -> None:
    for file, parsed in corpus.parsed.items():
        record = parsed.record
        assert record is not None
        again = parse_record(render_record(record), file).record
        assert again is not None
        assert (again.title, again.text, again.decision) == (
            record.title,
            record.text,
            record.decision,
        ), file
        assert (again.created, again.status) == (record.created, record.status), file
