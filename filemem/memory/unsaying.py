"""What takes the subjects of a record's saves out of every commit message: a filter for the commands of a purge.

Rule: a line goes where it has such a subject, quoted too (a revert, a merge that lists what it brought). Another
record's subject stays, also where it begins with the same words; one that two records share goes from the saves alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filemem.repo.history import History

_SAVE = r"(decision(\(.*\))?|checkpoint|observation): "
_MESSAGE = (
    r"BEGIN { %s } "
    r"{ row[NR] = $0 } "
    rf"/^[ *-]*{_SAVE}/ {{ if (ids) saves = ids = 0; saved[++saves] = $0 }} "
    r'tolower($1) == "filemem-id:" { ids = 1; if ($2 == "%s") for (n = 1; n <= saves; n++) '
    r'{ sub(/^[ *-]+/, "", saved[n]); gone[saved[n]] } } '
    r"function has(line, one,  at, rest) { at = index(line, one); if (!at) return 0; "
    r"rest = substr(line, at + length(one)); line = substr(line, 1, at - 1); gsub(/\(#[0-9]+\)/, "
    r'"", rest); if (rest !~ /[A-Za-z0-9\200-\377]/) return 1; '
    r'return rest !~ /^[A-Za-z0-9\200-\377]/ && line !~ /^[ *-]*((Revert|Reapply) "|(fixup|squash|amend)! )*$/ } '
    r"END { for (n = 1; n <= NR; n++) { kept = 1; for (one in gone) if (has(row[n], one)) kept = 0; "
    r'if (kept) print row[n]; else if (n == 1) print "purged" } }'
)
_SPECIAL, _LITERAL = r"[][.{}()*+?|^$\\]", r"\\\g<0>"  # of an extended regular expression


def subjects(history: History, record_id: str) -> list[str]:
    """The subjects under which a record alone was saved, on any branch, and no other was.

    Args:
        history: of the repository that has the records.
        record_id: the record's id.
    """
    own: set[str] = set()
    others: set[str] = set()
    for message in history.messages("^Filemem-Id:"):
        subject = message.strip().partition("\n")[0].strip()
        named = re.findall(r"(?mi)^Filemem-Id:[ \t]*(\S+)", message)
        if re.match(_SAVE, subject):
            (own if named == [record_id] else others).add(subject)
    return sorted(own - others)


def unsaid(record_id: str, told: Iterable[str]) -> str:
    """The command that takes a record's subjects out of a message; it reads and writes it.

    Args:
        record_id: the record's id: what a message says to be saved under it goes as well.
        told: the subjects that are known.
    """
    known = "; ".join(f"gone[{_text(one)}]" for one in told)
    return f"LC_ALL=C awk {shlex.quote(_MESSAGE % (known, _text(record_id)[1:-1]))}"


def still_said(told: Iterable[str], refs: str) -> str:
    """The command that names each commit whose message quotes a subject up to the end of a line; "" for no subjects."""
    lines = (rf"{literal(one)}([[:space:][:punct:]]|\(#[0-9]+\))*$" for one in told)
    patterns = "".join(f" --grep={shlex.quote(line)}" for line in lines)
    return f"git log {refs} -E{patterns} --format='still said in %h'" if patterns else ""


def literal(text: str) -> str:
    """An extended regular expression that means a text and nothing else."""
    return re.sub(_SPECIAL, _LITERAL, text)


def _text(text: str) -> str:
    """A string of awk."""
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))
