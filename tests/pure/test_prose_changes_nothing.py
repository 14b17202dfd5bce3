"""What holds does not change when somebody adds a sentence of prose to a record, wrapped anywhere."""

from __future__ import annotations

import textwrap

from hypothesis import given
from hypothesis import strategies as st

from filemem.chain import Node, build_graph
from filemem.record import build_reference_index, parse_record, resolve_reference

RECORDS = {
    "0001-a.md": "# 1. A\n\nDate: 2025-01-01\n\n## Status\n\nAccepted\n\n## Context\n\nOne.\n",
    "0002-b.md": "# 2. B\n\n* Status: accepted\n* Date: 2025-01-02\n\n## Context\n\nTwo.\n",
    "0003-c.md": "# 3. C\n\n## Status\n\nSuperseded by [4. D](0004-d.md)\n\n## Context\n\nThree.\n",
    "0004-d.md": "---\nstatus: accepted\ndate: 2025-01-04\n---\n# 4. D\n\n## Context\n\nFour.\n",
    "0005-e.md": "# 5. E\n\n## Status\n\nRejected\n\n## Context\n\nFive.\n",
    "0006-f.md": "# 6. F\n\n## Status\n\nOn hold\n\n## Context\n\nSix.\n",
}
BEGIN = ("The queue", "Our earlier framing", "That service", "Each worker", "Die Warteschlange")
WORDS = (
    "is", "was", "and", "then", "superseded", "supersedes", "replaced", "replaces", "by", "under",
    "ADR-1", "ADR 2", "[1. A](0001-a.md)", "(see #2)", "#1", "0002-b.md", "accepted", "rejected",
    "proposed", "deprecated", "no longer", "not", "only", "in part", "amends", "ersetzt", "durch",
    "the old way,", "for reports", "status", "of 2024-05-06",
)  # fmt: skip
sentences = st.builds(
    lambda begin, words, width: textwrap.fill(f"{begin} {' '.join(words)}.", width),
    st.sampled_from(BEGIN),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=14),
    st.integers(30, 100),
)
PLACES = ("\n\n## Context", "\n\n## Status", "\n\n* Status", "\n\nOne.", "\n\nFour.")


def holding(texts: dict[str, str]) -> set[str]:
    records = [
        record
        for path, text in texts.items()
        if (record := parse_record(text.encode(), path).record)
    ]
    index = build_reference_index(records)
    nodes = [Node.from_record(record) for record in records]
    ids = {
        reference: meant
        for node in nodes
        for reference in node.references
        if (meant := resolve_reference(reference, index))
    }
    graph = build_graph([node.resolve_references(ids) for node in nodes])
    return {node.path for node in nodes if graph.is_head(node.id)}


def test_the_records_hold_as_they_say() -> None:
    assert holding(RECORDS) == {"0001-a.md", "0002-b.md", "0004-d.md"}


@given(path=st.sampled_from(sorted(RECORDS)), place=st.sampled_from(PLACES), sentence=sentences)
def test_a_sentence_of_prose_never_changes_what_holds(path: str, place: str, sentence: str) -> None:
    text = RECORDS[path].replace(place, f"\n\n{sentence}{place}", 1)
    assert holding(RECORDS | {path: text}) == holding(RECORDS)
