"""A filter says in SQL and in Python the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from filemem import query
from filemem.changes import ADDED, Change, Entry
from filemem.index import Doc, Index
from filemem.query import Filter, Reader
from filemem.record import OUTCOMES, STATUSES, TYPES
from tests.index import samples

DAYS = st.integers(samples.START, samples.START + 4)
TOPICS = ("caching", "logs", "web pages")
PATHS = ("src/cache", "src/**", "docs/*.md", "README.md")
READERS = (None, Reader(owner=False, agent="", department=""), Reader(True, "codex", ""))


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


@st.composite
def documents(draw: st.DrawFn) -> list[Doc]:
    """Records of every type, some of which replace others."""
    docs = []
    for at in range(draw(st.integers(1, 6))):
        replaced = draw(st.sampled_from([(), ("decision_0",)])) if at else ()
        docs.append(
            samples.doc(
                f"{at}.md",
                "Title",
                topic=draw(st.sampled_from(("", *TOPICS))),
                created=draw(DAYS),
                kind=draw(st.sampled_from(TYPES)),
                status=draw(st.sampled_from(STATUSES)),
                outcome=draw(st.sampled_from(OUTCOMES)),
                affects=draw(some(PATHS)),
                supersedes=replaced,
                visibility=draw(st.sampled_from(("", "private"))),
            )
        )
    return docs


FILTERS = st.builds(
    Filter,
    types=some(TYPES),
    topics=some(("caching", "web_pages", "title")),
    outcomes=some(OUTCOMES),
    statuses=some(STATUSES),
    since=st.none() | DAYS,
    until=st.none() | DAYS,
    path=st.sampled_from(("", *PATHS, "src/cache/lru.py")),
    live=st.booleans(),
    reader=st.sampled_from(READERS),
)


@settings(max_examples=150, deadline=None)
@given(documents(), st.lists(FILTERS, min_size=1, max_size=8))
def test_what_passes_a_filter_in_python_passes_it_in_sql(
    docs: list[Doc], filters: list[Filter]
) -> None:
    index = Index(None)
    by_path = {doc.path: doc for doc in docs}
    changes = [Change(ADDED, path, Entry(doc.blob, 1, 1)) for path, doc in by_path.items()]
    index.apply_changes(changes, by_path.get)
    rows = index.read_rows_by_id([doc.node.id for doc in docs])
    for wanted in filters:
        listed = {node.id for node in index.read_newest_nodes(wanted, len(docs))}
        passing = {
            name
            for name, row in rows.items()
            if query.is_match(wanted, row.node, is_live=row.is_live)
        }
        assert passing == listed, wanted
