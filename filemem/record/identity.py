"""Who a record is and where it lives: ids, topic identity, slugs and paths. Text in, text out.

Never a clock or a random source.
"""

from __future__ import annotations

import re
import unicodedata

from filemem.record.model import CHECKPOINT, DECISION, OBSERVATION, Record
from filemem.record.times import to_datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, lower case
_SHORT_ID_LENGTH = 8
_ENTROPY_BYTES = 5  # bytes behind the last eight characters of an id
_MAX_TOPIC_LENGTH = 50  # characters of a topic inside an id
_MAX_TOPIC_BYTES = 40  # of a topic inside a file name
_SEPARATORS = re.compile(r"[\s_\-/.:]+")
_NOT_ID = re.compile(r"[^a-z0-9_]+")
_RESERVED_NAMES = frozenset(
    (
        "con",
        "prn",
        "aux",
        "nul",
        *(f"{port}{n}" for port in ("com", "lpt") for n in "0123456789¹²³"),
    )
)
_LEADING_NUMBER = (
    r"(?i)\A(?:(?:ADR|MADR|FIP|RFC)[- ]?)?\d{1,5}(?:[.:)\]]|[ \t]*[-–—:|])[ \t]+(?=\S)"
)
_MARKUP_SUFFIXES = (".adoc", ".asciidoc", ".rst")
SUFFIXES = (".md", ".markdown", ".mdx", *_MARKUP_SUFFIXES)  # of records
SUFFIX = rf"(?:{'|'.join(map(re.escape, SUFFIXES))})"
ADR_NAME = (
    r"(?i)(?!\d{4}-\d\d-\d\d)((?:[a-z]{2,8}[-_])?)(\d{1,5})"
    rf"([-_ ]|(?={SUFFIX}$)).*{SUFFIX}"
)
_FOLDER_PAGE = re.compile(rf"(?i)(?:readme|index){SUFFIX}")
_UNTITLED = "untitled"
_FOLDERS = {DECISION: "decisions", CHECKPOINT: "checkpoints", OBSERVATION: "observations"}
TYPE_OF_FOLDER = {folder: type_ for type_, folder in _FOLDERS.items()}
PRIVATE_FOLDER = "private"


def _encode_base32(data: bytes) -> str:
    """Encode whole bytes whose bits divide by five."""
    value = int.from_bytes(data)
    digits = len(data) * 8 // 5
    return "".join(_ALPHABET[(value >> 5 * place) & 31] for place in range(digits - 1, -1, -1))


def _compute_digest(text: str) -> bytes:
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; records that state their id do without

    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _fold_text(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def build_topic_key(topic: str) -> str:
    """Return the identity of a topic: NFC, case folded, runs of space `_ - / . :` one `_`."""
    return _SEPARATORS.sub("_", _fold_text(topic)).strip("_")


def parse_topic(heading: str) -> str:
    """Return the topic of a decision that states none: its heading without a number in front."""
    return re.sub(_LEADING_NUMBER, "", heading, count=1)


def build_id(type: str, created_ms: int, entropy: bytes, topic: str = "") -> str:  # noqa: A002
    """A new record id such as `decision_caching_1763650000123_k3f9w2ma`.

    `entropy` is at least five random bytes.
    """
    suffix = f"{created_ms}_{_encode_base32(entropy[:_ENTROPY_BYTES])}"
    if type != DECISION:
        return f"{type}_{suffix}"
    key = build_topic_key(topic)
    topic_part = _NOT_ID.sub("", unicodedata.normalize("NFKD", key))[:_MAX_TOPIC_LENGTH].strip("_")
    return f"{type}_{topic_part or _encode_base32(_compute_digest(key)[:_ENTROPY_BYTES])}_{suffix}"


def build_import_id(type: str, system: str, *parts: str) -> str:  # noqa: A002
    """The id of what is imported: the same from the same parts.

    Such as `observation_claude_mem_1nq7c0s4k3f9w2ma`.
    """
    name = _NOT_ID.sub("_", system.casefold())
    return f"{type}_{name}_{_encode_base32(_compute_digest(chr(0).join((system, *parts)))[:10])}"


def shorten_id(id: str) -> str:  # noqa: A002
    """Return the part of an id that people type: its last eight characters, or fewer."""
    return id.rpartition("_")[2][-_SHORT_ID_LENGTH:]


def parse_adr_number(path: str, id: str = "") -> int | None:  # noqa: A002
    """Return the number in front of a file name, as in `0012-use-x.md`.

    The number of `0012-use-x/README.md` is its folder's. None where filemem named the
    file by its id.
    """
    folder, _, name = path.rpartition("/")
    if _FOLDER_PAGE.fullmatch(name):
        # `2025/README.md` is the page of a year: a record's folder has a name behind its number.
        match = re.fullmatch(ADR_NAME, f"{folder.rpartition('/')[2]}.md")
        return int(match[2]) if match and match[3] else None
    if id and name.endswith(f"{shorten_id(id)}.md"):
        return None
    match = re.fullmatch(ADR_NAME, name)
    return int(match[2]) if match else None


def strip_suffix(path: str) -> str:
    """Return a path without the suffix of a record."""
    return path.removesuffix(next(filter(path.lower().endswith, SUFFIXES), ""))


def is_markup(path: str) -> bool:
    """Whether a file is AsciiDoc or reStructuredText, by its name; such records are only read."""
    return path.lower().endswith(_MARKUP_SUFFIXES)


def derive_id(path: str) -> str:
    """Return the id of a file that states none, made from its store-relative path."""
    canonical = unicodedata.normalize("NFC", path)
    return f"file_{_encode_base32(_compute_digest(canonical)[:10])}"


def compute_number(id: str) -> int:  # noqa: A002
    """Return a stable integer for an id, 1 to 2**53 - 1, for callers that know only numbers."""
    return int.from_bytes(_compute_digest(id)[:8]) >> 11 or 1


def slugify(text: str, limit: int = 60) -> str:
    """A text as one portable path component of at most `limit` bytes.

    Letters of every script stay, all else becomes `-`.
    """
    folded_text = _fold_text(text)
    name = _shorten_slug(_replace_symbols(folded_text).strip("-"), limit) or _UNTITLED
    return f"{name}_" if name in _RESERVED_NAMES else name


def _replace_symbols(text: str) -> str:
    characters = []
    for character in text:
        category = unicodedata.category(character)
        if "\ufe00" <= character <= "\ufe0f":
            continue  # how an emoji is drawn
        if character.isalnum() or category[0] == "M":
            characters.append(character)
        elif character.isspace() or category not in ("Cc", "Cf", "Cs", "Co", "Cn"):
            characters.append("-")
    return re.sub("-{2,}", "-", unicodedata.normalize("NFC", "".join(characters)))


def _shorten_slug(name: str, limit: int) -> str:
    data = name.encode()
    if len(data) <= limit:
        return name
    shortened = data[:limit].decode(errors="ignore")
    whole_words = shortened.rpartition("-")[0]
    if data[len(shortened.encode()) :].startswith(b"-") or len(whole_words) * 2 < len(shortened):
        whole_words = shortened
    return whole_words.strip("-")


def build_record_path(record: Record) -> str:
    """Return the store-relative path of a new record; a decision's name begins with its topic."""
    is_dated = record.created is not None
    created = to_datetime(record.created or 0)
    name = f"{f'{created:%Y%m%d}-' * is_dated}{slugify(record.title)}-{slugify(shorten_id(record.id))}.md"
    if record.type == DECISION:
        name = f"{slugify(build_topic_key(record.topic or record.title), _MAX_TOPIC_BYTES)}--{name}"
    month = f"{created:%Y/%m/%d}" if record.type == OBSERVATION else f"{created:%Y/%m}"
    path = f"{_FOLDERS[record.type]}/{month if is_dated else 'undated'}/{name}"
    return f"{PRIVATE_FOLDER}/{path}" if record.visibility == "private" else path
