"""Adding to and removing from the words of a staged generation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tantivy
from tantivy import Query

from filemem.documents import TERM_FIELDS, Doc
from filemem.index.keyword.layout import (
    CREATED,
    KEY,
    PATH,
    STORED,
    Border,
    analyzer,
    exact,
    key,
    packed,
    prepared,
    schema,
    term_field,
)
from filemem.index.pending import parts
from filemem.index.plan import EXACT, FIELDS, STEM
from filemem.index.reading import normal

_SMALL_HEAP, _LARGE_HEAP = 15_000_000, 60_000_000  # bytes; the first is the least Tantivy takes


class WordsWriter:
    """Adds to and removes from the words of a staged generation.

    Args:
        folder: private to this writer; empty, or links to the words of the last generation.
        large: whether thousands of documents are to come.
    """

    def __init__(self, folder: Path, large: bool = False) -> None:
        self._folder = folder
        self._last: Mapping[str, str] = {}  # texts of some document that is surely in the index
        self._empty = not any(folder.iterdir())
        with Border():
            self._index = tantivy.Index(schema(), str(folder))
            for way in (EXACT, STEM):
                self._index.register_tokenizer(way, analyzer(way))
            self._writer = self._index.writer(_LARGE_HEAP if large else _SMALL_HEAP, 1)

    def remove(self, path: str) -> None:
        """Forget the document of a path, if there is one."""
        if not self._empty:
            with Border():
                self._writer.delete_documents_by_term(PATH, exact(path))

    def add(self, doc: Doc) -> None:
        """Add a document; that of the same path must have been removed before."""
        texts = {name: normal(text) for name, text in parts(doc).items()}
        values: dict[str, Any] = {
            STORED: packed(doc),
            PATH: exact(doc.path),
            KEY: key(doc.blob),
            CREATED: max(-(2**63), min(doc.created, 2**63 - 1)),
        }
        self._last = {name: prepared(way, texts[part]) for name, (part, way, _) in FIELDS.items()}
        values.update(self._last)
        for name in TERM_FIELDS:
            values[term_field(name)] = [exact(term) for term in dict.fromkeys(doc.terms.get(name, ())) if term]
        with Border():
            self._writer.add_document(tantivy.Document.from_dict(values, schema()))

    def close(self) -> tuple[int, int, dict[str, float]]:
        """Commit, finish all merges, let go of the files; return (documents, total, average) for the seal."""
        with Border():
            self._writer.commit()
            self._writer.wait_merging_threads()
            del self._writer
            self._index.config_reader("manual", 0)
            searcher = self._index.searcher()
            segments = json.loads((self._folder / "meta.json").read_bytes())["segments"]
            average = {name: _average(searcher, self._index.schema, name, self._last.get(name, "")) for name in FIELDS}
        return searcher.num_docs, sum(segment["max_doc"] for segment in segments), average


def _average(searcher: tantivy.Searcher, schema: tantivy.Schema, field: str, sample: str) -> float:
    """Return the mean length of a field as Tantivy uses it; the bindings tell it only when explaining a score.

    Args:
        sample: the text of this field of some document, prepared; saves walking the dictionary.
    """
    tokens = analyzer(FIELDS[field][1]).analyze(sample)[:1]
    for term in tokens or (term for term, _ in searcher.terms_with_prefix(field, "", None, 50)):
        query = Query.term_query(schema, field, term, "freq")
        hits = searcher.search(query, 1, count=False).hits
        if hits:
            return _explained(json.loads(query.explain(searcher, hits[0][1]).to_json()), "avgdl")
    return 0.0


def _explained(part: Mapping[str, Any], name: str) -> float:
    if part["description"].startswith(name):
        return float(part["value"])
    return max((_explained(detail, name) for detail in part.get("details") or ()), default=0.0)
