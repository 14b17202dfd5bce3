"""Documents made from seeds, for the index tests: records through `document`, as everybody makes them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from typing import Any

from filemem.chain import NO_FACTS
from filemem.changes import ADDED, MODIFIED, REMOVED, Change, Entry
from filemem.index import Doc, Index, Node, build_document
from filemem.record import Record

_WORDS = (
    "cache redis memory process server deploy pipeline queue worker retry timeout schema migration index vector token"
    " login session cookie password hash user account billing invoice payment refund webhook event stream batch job"
    " latency throughput replica shard leader follower consensus backup restore snapshot log metric trace alert page"
    " button form layout colour font mobile desktop browser request response header body json yaml parser lexer error"
    " exception crash test fixture mock build release version branch merge commit review approve reject decision reason"
)
WORDS = _WORDS.split()
DAY = 86_400_000
START = 1_760_000_000_000  # epoch milliseconds


def doc(
    path: str,
    title: str = "",
    text: str = "",
    *,
    topic: str = "",
    created: int | None = START,
    kind: str = "decision",
    supersedes: Iterable[str] | None = (),
    **fields: Any,
) -> Doc:
    """A document; its id ends with the name of its file unless `id` is given."""
    name = path.rsplit("/", 1)[-1].removesuffix(".md")
    record = Record(
        id=fields.pop("id", f"{kind}_{name}"),
        type=kind,
        path=path,
        title=title,
        text=text,
        created=created,
        topic=topic,
        topic_stated=bool(topic),
        supersedes=None if supersedes is None else tuple(supersedes),
        **fields,
    )
    return build_document(record, blob_of(record))


def blob_of(record: Record) -> str:
    said = repr(record).encode("utf-8", "replace")
    return hashlib.sha1(said, usedforsecurity=False).hexdigest()


def serial(number: int) -> str:
    """A word that only the sample of a number has: of letters, as names with digits are taken apart, and each twice,
    so that no other is one slip away."""
    return "serial" + "".join(2 * "bcdfghjkmx"[int(digit)] for digit in str(number))


def make(number: int, seed: int = 0, words: int = 60) -> Doc:
    """Return the sample document of a number; another seed gives it other content."""
    rng = random.Random(f"{number}-{seed}")
    said = rng.choices(WORDS, k=words)
    return doc(
        f"decisions/{WORDS[number % 97 % len(WORDS)]}/{number:06d}.md",
        title=" ".join(rng.choices(WORDS, k=6)),
        text=f"{' '.join(said)} {serial(number)}",
        topic=f"{WORDS[number % 37]}_{WORDS[number % 11]}",
        created=START + number * 60_000,
        tags=tuple(rng.sample(WORDS, k=2)),
        outcome=rng.choice(("pending", "success", "failed")),
    )


class Tree:
    """A work tree as the index sees it: documents by path."""

    def __init__(self, docs: Iterable[Doc] = ()) -> None:
        self.docs = {each.path: each for each in docs}

    def entries(self) -> dict[str, Entry]:
        return {path: Entry(each.blob, 1, 1) for path, each in self.docs.items()}

    def load(self, path: str) -> Doc | None:
        return self.docs.get(path)

    def apply(self, index: Index, head: str = "", *, anew: bool = False) -> None:
        """Do what a catch-up does."""
        before, after = {} if anew else index.read_manifest(), self.entries()
        changes = []
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if new is None:
                changes.append(Change(REMOVED, path, None))
            elif old is None or old.blob != new.blob:
                changes.append(Change(MODIFIED if old else ADDED, path, new))
        index.apply_changes(changes, self.load, before=before, scan_manifest=after, rebuild=anew)
        index.write_notes(head=head)
        index.update_caches()


def fold(index: Index) -> None:
    """Move the caches forward."""
    index.update_caches()


def ids(nodes: Iterable[Node]) -> list[str]:
    return [node.id for node in nodes]


def facts(index: Index) -> Mapping[str, object]:
    """Everything that an index says of its records, and that its chains are as all records make them.

    Nodes with resolved references, who holds, what follows for each decision, exact terms.
    """
    from filemem.query import Filter

    nodes = index.read_nodes()
    around = index.read_chains(nodes)
    standing = {name: row.facts for name, row in index.read_rows_by_id(ids(nodes)).items()}
    worked_out = around.graph.build_facts(around.referring_nodes)
    assert standing == {name: worked_out.get(name, NO_FACTS) for name in standing}
    return {
        "nodes": nodes,
        "holding": sorted(ids(index.read_newest_nodes(Filter(live=True), 1000))),
        "heads": {key: chain.heads for key, chain in around.graph.chains.items()},
        "pointing": sorted(ids(around.referring_nodes)),
        "standing": standing,
        "terms": [index.count_terms(name) for name in ("topic", "tag", "short")],
        "count": index.count_records(),
        "manifest": index.read_manifest(),
        "records": index.read_records(node.path for node in nodes),
    }
