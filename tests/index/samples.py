"""Documents made from seeds, for the index tests."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping

from filemem.changes import ADDED, MODIFIED, REMOVED, Change, Entry
from filemem.documents import Doc
from filemem.index import Index

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


def blob_of(*parts: object) -> str:
    return hashlib.sha1(repr(parts).encode(), usedforsecurity=False).hexdigest()


def doc(
    path: str,
    title: str = "",
    body: str = "",
    *,
    topic: str = "",
    created: int = START,
    kind: str = "decision",
    **terms: str | Iterable[str],
) -> Doc:
    name = path.rsplit("/", 1)[-1].removesuffix(".md")
    given = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in terms.items()}
    base: Mapping[str, tuple[str, ...]] = {
        "id": (f"{kind}_{name}",),
        "short": (name[-8:],),
        "type": (kind,),
        "topic": (topic,) if topic else (),
        "live": ("yes",),
    }
    exact = {**base, **given}
    passages = tuple(f"{title}\n{body[at : at + 400]}" for at in range(0, max(1, len(body)), 400))
    return Doc(
        path=path,
        blob=blob_of(path, title, body, topic, created, sorted(exact.items())),
        id=exact["id"][0],
        type=kind,
        created=created,
        terms=exact,
        title=title,
        topic=topic.replace("_", " "),
        body=body,
        passages=passages,
        node=json.dumps({"id": exact["id"][0], "path": path}),
    )


def make(number: int, seed: int = 0, words: int = 60) -> Doc:
    """Return the sample document of a number; another seed gives it other content."""
    rng = random.Random(f"{number}-{seed}")
    said = rng.choices(WORDS, k=words)
    return doc(
        f"decisions/{WORDS[number % 97 % len(WORDS)]}/{number:06d}.md",
        title=" ".join(rng.choices(WORDS, k=6)),
        body=f"{' '.join(said)} serial{number}",
        topic=f"{WORDS[number % 37]}_{WORDS[number % 11]}",
        created=START + number * 60_000,
        tag=rng.sample(WORDS, k=2),
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

    def apply(self, index: Index, head: str = "") -> None:
        """Do what a catch-up does."""
        before, after = index.manifest(), self.entries()
        changes = []
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if new is None:
                changes.append(Change(REMOVED, path, None))
            elif old is None or old.blob != new.blob:
                changes.append(Change(MODIFIED if old else ADDED, path, new))
        index.apply(changes, self.load, head, seen=after)


def ids(nodes: Iterable[str]) -> list[str]:
    return [json.loads(node)["id"] for node in nodes]
