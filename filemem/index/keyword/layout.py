"""How the words are laid out in Tantivy: fields, analysers, how a document is stored. And the border to its errors."""

import errno
import re
from functools import cache
from types import TracebackType
from typing import NamedTuple

import tantivy

from filemem.documents import TERM_FIELDS, Doc
from filemem.index.folder import refused
from filemem.index.generation import IndexDamaged
from filemem.index.plan import EXACT, FIELDS, STEM
from filemem.index.reading import UNSPACED_SCRIPTS, spaced, spread

_LONGEST_TOKEN = 100  # bytes
_STOP_WORDS = (
    "a about after all also am an and any are as at be because been before being but by can could did do does doing"
    " for from had has have having he her here him his how i if in into is it its itself just me more most my no nor"
    " not of off on once only or other our out over own same she should so some such than that the their them then"
    " there these they this those through to too until up very was we were what when where which while who whom why"
    " will with would you your s t ll re ve"
)
# Of what is read and kept: raised where `documents` gives other texts or other nodes, or other files are records.
_VERSION = 5
_READ = [(name, *about[:2]) for name, about in FIELDS.items()]
READING = (_VERSION, UNSPACED_SCRIPTS, _LONGEST_TOKEN, _STOP_WORDS, _READ)
PATH, KEY = "path", "key"
CREATED, STORED = "created", "stored"
_SEPARATOR = "\0"
_SYSTEM_ERROR = r"\(os error (\d{1,5})\)"  # as Rust ends its words for what the system said
_SMALL_HEAP, _LARGE_HEAP = 15_000_000, 60_000_000  # bytes; the first is the least Tantivy takes


class Stored(NamedTuple):
    """A document as it comes back.

    Args:
        key: what its vectors are filed under.
        node: the caller's JSON.
    """

    path: str
    id: str
    blob: str
    created: int
    key: int
    node: str


def key(blob: str) -> int:
    """Return the number under which the vectors of a blob are filed: its first 63 bits."""
    return int(blob[:16], 16) >> 1


def analyze(way: str, text: str) -> list[str]:
    """Return the tokens of a normal text, read in one of the ways of `plan`."""
    return analyzer(way).analyze(prepared(way, text))


def term_field(name: str) -> str:
    """Return the name in the index of a field of exact terms."""
    return f"is_{name}"


def prepared(way: str, text: str) -> str:
    """Return a normal text as the analyser of a way takes it."""
    return spread(text) if way == EXACT else spaced(text)


def exact(value: str | int) -> str | int:
    """Return a value in a form that UTF-8 can hold: names of files may be any bytes."""
    return value if isinstance(value, int) else value.encode("utf-8", "backslashreplace").decode()


def packed(doc: Doc) -> bytes:
    """Return what is stored of a document."""
    stored = (doc.path, doc.id, doc.blob, str(doc.created), str(key(doc.blob)), doc.node)
    return _SEPARATOR.join(part.replace(_SEPARATOR, "") for part in stored).encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> Stored:
    """Return what `packed` packed; ValueError where it did not."""
    path, record_id, blob, created, number, node = data.decode("utf-8", "surrogatepass").split(_SEPARATOR, 5)
    return Stored(path, record_id, blob, int(created), int(number), node)


@cache
def analyzer(way: str) -> tantivy.TextAnalyzer:
    """Return the analyser of a way of reading."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    filters = [
        tantivy.Filter.remove_long(_LONGEST_TOKEN),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
    ]
    if way == STEM:
        filters += [tantivy.Filter.custom_stopword(_STOP_WORDS.split()), tantivy.Filter.stemmer("english")]
    for each in filters:
        builder = builder.filter(each)
    return builder.build()


@cache
def schema() -> tantivy.Schema:
    """Return the fields of the index."""
    builder = tantivy.SchemaBuilder()
    for name in (PATH, *map(term_field, TERM_FIELDS)):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name, (_, way, _) in FIELDS.items():
        builder.add_text_field(name, tokenizer_name=way, index_option="freq" if way == STEM else "position")
    builder.add_bytes_field(STORED, stored=True)
    for name in (KEY, CREATED):
        builder.add_integer_field(name, indexed=True, fast=True)
    return builder.build()


class Border:
    """Turns what Tantivy throws into `IndexDamaged`, and what the system refused it into `BrokenStore`.

    A panic in Rust arrives as an exception that is no `Exception` and whose class can not be imported; a context
    manager sees it by name without catching everything.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or not (issubclass(kind, ValueError | OSError) or kind.__name__ == "PanicException"):
            return
        said = re.search(_SYSTEM_ERROR, str(error))
        if said and int(said[1]) != errno.ENOENT:  # a file that is gone is damage, a full disk is none
            raise refused(int(said[1])) from error
        raise IndexDamaged("its words cannot be read or written") from error
