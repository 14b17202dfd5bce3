"""The front matter keys, as one table: reading, writing, amending, the schemas and the docs all follow it."""

from typing import NamedTuple

from filemem.record.model import (
    CHECKPOINT,
    DECIDERS,
    DECISION,
    KINDS,
    OBSERVATION,
    OUTCOMES,
    STATUSES,
    TYPES,
    VISIBILITIES,
)

TEXT, CHOICE, LIST, WORDS, EDGES, TIME, SHARE, MAPPING, FLAG = (
    "text",
    "choice",  # text, one of `choices`
    "list",  # a list of text; a lone value is a list of one
    "words",  # the same, and a lone value is split at commas
    "edges",  # ids, paths or links of other records
    "time",
    "share",  # a number between 0 and 1
    "mapping",
    "flag",  # the one word `allowed`
)


class Key(NamedTuple):
    """One front matter key: its name, the Record field it fills, the shape of its value, the types it is for."""

    name: str
    field: str
    shape: str
    types: tuple[str, ...] = TYPES
    choices: tuple[str, ...] = ()


_D, _C, _O = (DECISION,), (CHECKPOINT,), (OBSERVATION,)

# The order is the order in which new files are written.
KEYS: tuple[Key, ...] = (
    Key("id", "id", TEXT),
    Key("type", "type", CHOICE, choices=TYPES),
    Key("topic", "topic", TEXT, _D),
    Key("created", "created", TIME),
    Key("status", "status", CHOICE, _D, STATUSES),
    Key("confidence", "confidence", SHARE, _D),
    Key("outcome", "outcome", CHOICE, _D, OUTCOMES),
    Key("limitation", "limitation", TEXT, _D),
    Key("decided_by", "decided_by", CHOICE, _D, DECIDERS),
    Key("supersedes", "supersedes", EDGES, _D),
    Key("builds_on", "builds_on", EDGES, _D),
    Key("debates", "debates", EDGES, _D),
    Key("synthesizes", "synthesizes", EDGES, _D),
    Key("affects", "affects", LIST, _D),
    Key("branch", "branch", TEXT, _C),
    Key("open_files", "open_files", LIST, _C),
    Key("kind", "kind", CHOICE, _O, KINDS),
    Key("project", "project", TEXT, _O),
    Key("concepts", "concepts", WORDS, _O),
    Key("files_read", "files_read", LIST, _O),
    Key("files_modified", "files_modified", LIST, _O),
    Key("department", "department", TEXT, _O),
    Key("visibility", "visibility", CHOICE, _O, VISIBILITIES),
    Key("user_id", "user_id", TEXT, _O),
    Key("agent_id", "agent_id", TEXT, _O),
    Key("run_id", "run_id", TEXT, _O),
    Key("scope", "scope", TEXT, _O),
    Key("memory_type", "memory_type", TEXT, _O),
    Key("tags", "tags", WORDS),
    Key("agent", "agent", TEXT),
    Key("session", "session", TEXT),
    Key("source", "source", TEXT),
    Key("secrets", "secrets_allowed", FLAG),
    Key("metadata", "metadata", MAPPING, _O),
)
KEY_BY_NAME = {key.name: key for key in KEYS}
KEY_ORDER = {key.name: place for place, key in enumerate(KEYS)}

SECRETS_ALLOWED = "allowed"
TITLE_KEY = "title"

# Names that other makers use for ours. Where both stand, ours counts and theirs is kept as an unknown key.
ALIASES = {
    "date": "created",
    "replaces": "supersedes",
    "builds-on": "builds_on",
    "superseded_by": "superseded_by",
    "superseded-by": "superseded_by",
    "supersededBy": "superseded_by",
    "replaced-by": "superseded_by",
    "replaced_by": "superseded_by",
}
SUPERSEDED_BY = Key("superseded_by", "superseded_by", EDGES, _D)
