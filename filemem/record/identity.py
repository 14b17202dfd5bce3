"""Ids, topic keys, slugs and paths of records. Pure: reads neither a clock nor a random source."""

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
    """Encode bytes in base 32; their bits must divide by five."""
    value = int.from_bytes(data)
    digits = ""
    for _ in range(len(data) * 8 // 5):
        digits = _ALPHABET[value & 31] + digits
        value >>= 5
    return digits


def _compute_digest(text: str) -> bytes:
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; records that state their id do without

    data = text.encode(errors="surrogatepass")
    return hashlib.sha256(data).digest()


def _fold_text(text: str) -> str:
    folded_text = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", folded_text)


def build_topic_key(topic: str) -> str:
    """Return the identity of a topic: NFC, case folded, runs of space `_ - / . :` one `_`."""
    key = _SEPARATORS.sub("_", _fold_text(topic))
    return key.strip("_")


def parse_topic(heading: str) -> str:
    """Return the topic of a decision without one: its heading without a number in front."""
    return re.sub(_LEADING_NUMBER, "", heading, count=1)


def build_id(type: str, created_ms: int, entropy: bytes, topic: str = "") -> str:  # noqa: A002
    """Return a new record id such as `decision_caching_1763650000123_k3f9w2ma`.

    `entropy` is at least five random bytes.
    """
    suffix = f"{created_ms}_{_encode_base32(entropy[:_ENTROPY_BYTES])}"
    if type != DECISION:
        return f"{type}_{suffix}"
    key = build_topic_key(topic)
    ascii_key = _NOT_ID.sub("", unicodedata.normalize("NFKD", key))
    topic_part = ascii_key[:_MAX_TOPIC_LENGTH].strip("_")
    if not topic_part:
        digest = _compute_digest(key)
        topic_part = _encode_base32(digest[:_ENTROPY_BYTES])
    return f"{type}_{topic_part}_{suffix}"


def build_import_id(type: str, system: str, *parts: str) -> str:  # noqa: A002
    """Return the id of an imported record, such as `observation_claude_mem_1nq7c0s4k3f9w2ma`.

    Equal parts give equal ids.
    """
    name = _NOT_ID.sub("_", system.casefold())
    origin = "\0".join((system, *parts))
    digest = _compute_digest(origin)
    return f"{type}_{name}_{_encode_base32(digest[:10])}"


def shorten_id(id: str) -> str:  # noqa: A002
    """Return the part of an id that people type: at most its last eight characters."""
    last_part = id.rpartition("_")[2]
    return last_part[-_SHORT_ID_LENGTH:]


def parse_adr_number(path: str, id: str = "") -> int | None:  # noqa: A002
    """Return the number in front of a file name, as in `0012-use-x.md`.

    `0012-use-x/README.md` has the number of its folder. Returns None if there is no number, or if
    filemem named the file by its id.
    """
    folder, _, name = path.rpartition("/")
    if _FOLDER_PAGE.fullmatch(name):
        folder_name = folder.rpartition("/")[2]
        match = re.fullmatch(ADR_NAME, f"{folder_name}.md")
        # `2025/README.md` is the page of a year: a record's folder has a title after its number.
        if match is None or not match[3]:
            return None
        return int(match[2])
    if id and name.endswith(f"{shorten_id(id)}.md"):
        return None
    match = re.fullmatch(ADR_NAME, name)
    if match is None:
        return None
    return int(match[2])


def strip_suffix(path: str) -> str:
    """Return a path without the suffix of a record."""
    folded_path = path.lower()
    for suffix in SUFFIXES:
        if folded_path.endswith(suffix):
            return path.removesuffix(suffix)
    return path


def is_markup(path: str) -> bool:
    """Whether a file is named as AsciiDoc or reStructuredText; such records are only read."""
    return path.lower().endswith(_MARKUP_SUFFIXES)


def derive_id(path: str) -> str:
    """Return the id of a file without one, made from its store-relative path."""
    canonical = unicodedata.normalize("NFC", path)
    digest = _compute_digest(canonical)
    return f"file_{_encode_base32(digest[:10])}"


def compute_number(id: str) -> int:  # noqa: A002
    """Return a stable integer for an id, 1 to 2**53 - 1, for callers that know only numbers."""
    digest = _compute_digest(id)
    number = int.from_bytes(digest[:8]) >> 11
    return number or 1


def slugify(text: str, limit: int = 60) -> str:
    """Return a text as one portable path component of at most `limit` bytes.

    Letters of every script stay; other characters become `-`.
    """
    name = _replace_symbols(_fold_text(text)).strip("-")
    name = _shorten_slug(name, limit) or _UNTITLED
    if name in _RESERVED_NAMES:
        return f"{name}_"
    return name


def _replace_symbols(text: str) -> str:
    characters = []
    for character in text:
        category = unicodedata.category(character)
        if "\ufe00" <= character <= "\ufe0f":
            continue  # a variation selector: how an emoji is drawn
        if character.isalnum() or category.startswith("M"):
            characters.append(character)
        elif character.isspace() or category not in ("Cc", "Cf", "Cs", "Co", "Cn"):
            characters.append("-")
    name = unicodedata.normalize("NFC", "".join(characters))
    return re.sub("-{2,}", "-", name)


def _shorten_slug(name: str, limit: int) -> str:
    """Cut a slug at a word, unless that would remove more than half of it."""
    data = name.encode()
    if len(data) <= limit:
        return name
    shortened = data[:limit].decode(errors="ignore")
    whole_words = shortened.rpartition("-")[0]
    removed = data[len(shortened.encode()) :]
    if removed.startswith(b"-") or len(whole_words) * 2 < len(shortened):
        return shortened.strip("-")
    return whole_words.strip("-")


def build_record_path(record: Record) -> str:
    """Return the store-relative path of a new record; a decision's name begins with its topic."""
    created = to_datetime(record.created or 0)
    title = slugify(record.title)
    short_id = slugify(shorten_id(record.id))
    name = f"{title}-{short_id}.md"
    period = "undated"
    if record.created is not None:
        name = f"{created:%Y%m%d}-{name}"
        period = f"{created:%Y/%m}"
        if record.type == OBSERVATION:
            period = f"{created:%Y/%m/%d}"
    if record.type == DECISION:
        key = build_topic_key(record.topic or record.title)
        topic = slugify(key, _MAX_TOPIC_BYTES)
        name = f"{topic}--{name}"
    path = f"{_FOLDERS[record.type]}/{period}/{name}"
    if record.visibility == "private":
        return f"{PRIVATE_FOLDER}/{path}"
    return path
