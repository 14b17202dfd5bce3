"""What is indexed of a record, and the index folder: its notes, and the documents that wait in it to be folded in.

Rule: a file is written whole and renamed into place, so that a reader sees the old one or the new one. An entry of
`fresh/` is deleted only after a generation that holds it is in use: whoever lists that folder first and looks at the
generation second misses nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filemem import query
from filemem.chain import Node
from filemem.changes import Entry
from filemem.errors import BrokenStore
from filemem.record import DECISION, Edge, Outcome, Record, short_id, topic_key

TERM_FIELDS = (
    "short",
    "type",
    "topic",
    "tag",
    "outcome",
    "status",
    "agent",
    "affects",
    "branch",
    "user",
    "run",
    "session",
    "project",
)
WORDS, VECTORS, DATABASE = "words", "vectors", "index.db"
SEGMENT, GRAPH = ".rows", ".graph"  # files of vectors: rows, and which of them are near each other
LARGE = 60_000_000  # bytes of a segment from which on a graph pays: about 200,000 rows
GENERATION = re.compile(r"g\d{10}")
PASSAGE = 450  # characters; 900 and 1800 measured worse
MOST_PASSAGES = 24
TITLE_IN_PASSAGE = 200  # characters
_SENTENCE_END = r"(?<=[.!?。！？])\s+|\n+|(?<=[。！？])"
_PART = 1 << 18  # bytes of a file that are read at a time
_ENTRY = re.compile(r"[0-9]{20}-[0-9a-f]{8}\.json")
_README = """\
This folder is filemem's search index. Everything in it is derived from the records in the work tree and may be
deleted at any time; the next `filemem` command makes it again.
"""


def node_from(parts: Sequence[Any]) -> Node:
    """Return the node that was written as JSON: as the list of its fields."""
    return Node._make(map(_tuples, parts))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Doc(NamedTuple):
    """What is indexed of one record."""

    path: str
    blob: str  # Git blob id of the bytes it was made from; embeddings are cached under it
    created: int
    terms: Mapping[
        str, tuple[str, ...]
    ]  # exact values by field (see TERM_FIELDS); matched whole, never analysed
    title: str  # analysed, as are topic and body
    topic: str
    body: str
    passages: tuple[str, ...]  # texts to embed, each with the title in front
    node: Node  # what the index answers with
    card: str  # the whole record as JSON, so that what is found is shown without opening its file


def document(record: Record, blob: str) -> Doc:
    """Return what the index should know of a record; `blob` is the Git blob id of its file."""
    body = "\n\n".join(part for part in _body(record) if part)
    analysed = f"{record.title}\n{body}"
    topic = (
        record.topic if record.topic_stated else ""
    )  # else it is the title, which would count twice
    return Doc(
        path=record.path,
        blob=blob,
        created=record.created or 0,
        terms={name: values for name, values in _terms(record).items() if values},
        title=record.title,
        topic=" ".join(part for part in (topic, query.split_identifiers(topic)) if part),
        body=f"{body}\n\n{query.split_identifiers(analysed)}",
        passages=passages(f"{topic}: {record.title}" if topic else record.title, body),
        node=Node.of_record(record),
        card=json.dumps(to_plain(record), separators=(",", ":"), default=str),
    )


def passages(title: str, text: str, size: int = PASSAGE) -> tuple[str, ...]:
    """Return the texts to embed for a record: pieces of about `size` characters, each with the title in front.

    Cut at line ends and sentence ends where possible. At most MOST_PASSAGES; what lies behind is found by words only.
    """
    head = " ".join(title.split())[:TITLE_IN_PASSAGE]
    pieces: list[str] = []
    filled = ""
    for piece in _pieces(text, size):
        if len(pieces) == MOST_PASSAGES:
            break
        if filled and len(filled) + 1 + len(piece) > size:
            pieces.append(filled)
            filled = piece
        else:
            filled = f"{filled} {piece}" if filled else piece
    if filled and len(pieces) < MOST_PASSAGES:
        pieces.append(filled)
    return tuple(
        "\n".join(part for part in (head, piece) if part)
        for piece in pieces or [""]
        if head or piece
    )


def _pieces(text: str, size: int) -> Iterator[str]:
    """Yield sentences and lines, and parts of those that are longer than `size`."""
    for sentence in re.split(_SENTENCE_END, text):
        rest = " ".join(sentence.split())
        at = 0
        while len(rest) - at > size:
            gap = rest.rfind(" ", at + size // 2, at + size)
            cut = gap if gap > 0 else at + size
            yield rest[at:cut]
            at = cut + 1 if gap > 0 else cut
        if rest[at:]:
            yield rest[at:]


def key(blob: str) -> int:
    """Return the number under which the vectors of a blob are filed: its first 63 bits."""
    return int(blob[:16], 16) >> 1


def record_from(text: str) -> Record:
    """Return the record of a card."""
    return from_plain(json.loads(text))


def to_plain(record: Record) -> dict[str, Any]:
    """The fields that say something, in their order."""
    usual = Record._field_defaults
    return {
        name: value
        for name, value in record._asdict().items()
        if name not in usual or value != usual[name]
    }


def from_plain(said: Mapping[str, Any]) -> Record:
    """The record of plain values, or of what JSON made of them."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in said.items()
    }
    values["outcomes"] = tuple(Outcome(*one) for one in values.get("outcomes", ()))
    values["mentions"] = tuple(Edge(*one) for one in values.get("mentions", ()))
    return Record(**values)


def _terms(record: Record) -> dict[str, tuple[str, ...]]:
    decision = record.type == DECISION
    key = topic_key(record.topic)
    return {
        "short": (short_id(record.id),),
        "type": (record.type,),
        "topic": (key,) if key else (),
        "tag": tuple({query.fold(tag) for tag in (*record.tags, *record.concepts)}),
        "outcome": (record.outcome,) if decision else (),
        "status": (record.status,) if decision else (),
        "agent": tuple({query.fold(name) for name in (record.agent, record.agent_id)} - {""}),
        "affects": record.affects,
        "branch": (record.branch,) if record.branch else (),
        "user": (record.user_id,) if record.user_id else (),
        "run": (record.run_id,) if record.run_id else (),
        "session": (query.fold(record.session),) if record.session else (),
        "project": (query.fold(record.project),) if record.project else (),
    }


def _body(record: Record) -> tuple[str, ...]:
    """Everything a person could search for, in reading order. The title stands apart."""
    return (
        record.decision if record.decision != record.title else "",
        record.text,
        record.next_steps,
        "\n".join(record.facts),
        "\n".join(record.rejected),
        "\n".join(entry.reason for entry in record.outcomes if entry.reason),
        record.limitation,
        " ".join((*record.tags, *record.concepts)),
        " ".join((*record.affects, *record.open_files, *record.files_read, *record.files_modified)),
    )


# the folder


class IndexDamaged(BrokenStore):
    """The index cannot be used and must be rebuilt; the records are not affected."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the search index is damaged: {what}",
            "run `filemem index --rebuild`; the records are not affected",
        )


def refused(number: int) -> BrokenStore:
    """Return the error for something that the system refused a library, by its number."""
    told = f"the search index cannot be written or read: {os.strerror(number)}"
    return BrokenStore(
        told, "check the free space, and who may write there; the records are not affected"
    )


@contextlib.contextmanager
def writing(root: Path) -> Iterator[None]:
    """Make the index folder and its explanation; turn what the system refuses into `BrokenStore`."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not (root / "README.md").exists():
            (root / "README.md").write_text(_README, encoding="utf-8")
        yield
    except OSError as error:
        raise BrokenStore(
            f"the index folder {root} cannot be written: {error.strerror or error}",
            "make it writable, free some space, or let the index live in your cache folder",
        ) from error


def replace_file(path: Path, value: object) -> None:
    """Write a value as JSON, at once: a power cut may leave a torn file, and what it says can be lost."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value), encoding="utf-8")
    temporary.replace(path)


def read_file(path: Path) -> Any:
    """Read what `replace_file` wrote; None where it is torn or gone."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def listed(root: Path) -> list[str]:
    """Return the names in a folder; none where there is no such folder."""
    try:
        return os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return []


def write_times(path: Path, times: Mapping[str, int]) -> None:
    """Write times by name, at once: 90,000 take two fifths of the time that they take as JSON."""
    values, names = array("q", (len(times), *times.values())), "\0".join(times)
    data = values.tobytes() + names.encode("utf-8", "surrogateescape")
    if not path.exists() or path.read_bytes() != data:
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes(data)
        temporary.replace(path)


def read_times(path: Path) -> dict[str, int]:
    """Read what `write_times` wrote; nothing where it is torn or gone: every name has its time, or none counts."""
    try:
        data = path.read_bytes()
        start = 8 * (1 + int.from_bytes(data[:8], sys.byteorder))
        times, names = (
            array("q", data[8:start]),
            data[start:].decode("utf-8", "surrogateescape").split("\0"),
        )
        return dict(zip(names, times, strict=True)) if times else {}
    except (OSError, ValueError):
        return {}


class Seal(NamedTuple):
    """What is known of one generation without opening it."""

    name: str = ""  # of its folder; "" for none
    files: Mapping[str, list[int]] = {}  # name relative to that -> [inode, bytes, time, CRC-32]
    missing: int = 0  # documents that have no vectors because the model could not be had


def mark(path: Path) -> list[int]:
    """Return what any write to a file changes: its inode, size and time; [] where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file; -1 where it cannot be read."""
    found = 0
    try:
        with path.open("rb") as file:
            while part := file.read(_PART):
                found = zlib.crc32(part, found)
    except OSError:
        return -1
    return found


def compare(root: Path, seal: Seal, part: str = "", *, every: bool = False) -> None:
    """Compare the files of one part of a generation with the seal; raises `IndexDamaged`."""
    for name, (*known, crc) in seal.files.items():
        path = root / seal.name / name
        if name.startswith(part) and (every or mark(path) != known) and checksum(path) != crc:
            raise IndexDamaged(f"{seal.name}/{name} does not match its checksum")


class Notes(NamedTuple):
    """Where HEAD was, and what the work tree looked like, when the index was last found right.

    Losing them costs one full look at the store, never an answer.
    """

    head: str = ""
    looked: int = 0  # when every file was looked at last, in nanoseconds since 1970
    cost: int = 0  # how long that took, in nanoseconds
    forgotten: str = ""  # what the tombstones were then, in the caller's words


class Item(NamedTuple):
    """One entry that waits: a document put in place of any other of its path, or a path that is gone (no `doc`)."""

    name: str
    path: str
    doc: Doc | None = None
    entry: Entry | None = None

    @property
    def saved(self) -> int:
        """When it was saved, in nanoseconds since 1970."""
        return int(self.name.partition("-")[0])


class Fresh:
    """What waits, as this process knows it: one immutable file a save, in a folder of the index folder."""

    def __init__(self, root: Path, clock: Callable[[], int]) -> None:
        self._root, self._folder, self._clock = root, root / "fresh", clock
        self._items: dict[str, Item] = {}

    def push(self, path: str, doc: Doc | None, entry: Entry | None) -> None:
        """Add an entry; raises `BrokenStore` where the folder cannot be written."""
        entry = Entry(doc.blob) if doc and entry is None else entry
        last = max((item.saved for item in self._items.values()), default=0)
        said: dict[str, Any] = {"path": path, "entry": entry}
        said |= {"blob": doc.blob, "card": doc.card} if doc else {}
        name = f"{max(self._clock(), last + 1):020d}-{_sum(said)}.json"
        with writing(self._root):
            self._folder.mkdir(exist_ok=True)
            replace_file(self._folder / name, said)
        self._items[name] = Item(name, path, doc, entry)

    def items(self) -> tuple[Item, ...]:
        """Return the entries that wait now, oldest first."""
        names = sorted(filter(_ENTRY.fullmatch, listed(self._folder)))
        loaded = (self._items.get(name) or self._load(name) for name in names)
        self._items = {item.name: item for item in loaded if item is not None}
        return tuple(self._items.values())

    def forget(self, items: Iterable[Item]) -> None:
        """Delete entries that a generation in use holds."""
        for item in items:
            with contextlib.suppress(OSError):  # it is deleted with a later one
                (self._folder / item.name).unlink()

    def _load(self, name: str) -> Item | None:
        """Read an entry; None where it was just folded in, or is torn: then the next look finds the file itself."""
        found = read_file(self._folder / name)
        with contextlib.suppress(LookupError, TypeError, ValueError):
            if not name.endswith(f"-{_sum(found)}.json"):
                return None
            doc = document(record_from(found["card"]), found["blob"]) if "card" in found else None
            return Item(
                name, found["path"], doc, Entry(*found["entry"]) if found["entry"] else None
            )
        return None


def _sum(said: Mapping[str, Any]) -> str:
    """The CRC-32 of an entry that waits, which its name ends with."""
    return f"{zlib.crc32(json.dumps(said, sort_keys=True).encode()):08x}"
