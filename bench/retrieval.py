"""Asks the questions of a retrieval set through the public search: `python bench/retrieval.py SET_DIR --out FILE`.

A set is a folder: `corpus.jsonl` (or `.gz`) with id, title, text; `queries.jsonl` with id, text; `qrels.tsv` with
query, document, score. Its documents become the records of a real store in a temporary repository. The answers are
lines `{"qid", "ranked": [document ids]}`. Needs nothing but filemem and Git; `bench/relevance.py` has the measures.

Rule: a document is written as it is, into `<id>.md`, so that links from one to another by file name resolve.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import filemem

if TYPE_CHECKING:
    from filemem.memory import Memory

MODES = ("hybrid", "keyword", "vector")
HITS = 20  # asked per question; more than 33 would also look deeper than a plain search does
STORE = "memory"
_LONGEST = 120  # bytes of one folder or file name
_PLAIN = re.compile(r"[\w][\w .,+=@()'-]*(?<![ .])")
_HEADING = re.compile(r"#{1,6}\s|[^\n]+\n(=+|-+)\s*(\n|\Z)")
_TAKEN = (
    "readme",
    "private",
    "decisions",
    "checkpoints",
    "observations",
)  # names that mean something in a store


class Question(NamedTuple):
    """One query of a set."""

    id: str
    text: str


class Set(NamedTuple):
    """A retrieval set.

    Args:
        documents: id -> (title, text).
        grades: query -> document -> grade above 0; empty where the set has no judgements.
    """

    name: str
    documents: Mapping[str, tuple[str, str]]
    questions: tuple[Question, ...]
    grades: Mapping[str, Mapping[str, int]]


def load(folder: Path) -> Set:
    """Read a set.

    Raises:
        FileNotFoundError: corpus or queries are not there.
    """
    documents = {
        str(row["id"]): (str(row.get("title") or ""), str(row["text"]))
        for row in _rows(folder, "corpus")
    }
    questions = tuple(
        Question(str(row["id"]), str(row["text"])) for row in _rows(folder, "queries")
    )
    grades: dict[str, dict[str, int]] = {}
    if (folder / "qrels.tsv").exists():
        for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            qid, document, grade = line.split("\t")[:3]
            if int(grade) > 0:
                grades.setdefault(qid, {})[document] = int(grade)
    return Set(folder.resolve().name, documents, questions, grades)


class Asked(NamedTuple):
    """A store made of a set: its memory, and the document of each path."""

    memory: Memory
    document: Mapping[str, str]

    def ranked(self, text: str, mode: str, hits: int = HITS) -> list[str]:
        """Return the ids of the documents found, best first."""
        found = self.memory.search(text, limit=hits, mode=mode)
        return [self.document[hit.path.removeprefix(f"{STORE}/")] for hit in found.hits]


@contextmanager
def store_of(each: Set) -> Iterator[Asked]:
    """Make the documents of a set the records of a repository, index them, and delete it all afterwards."""
    with tempfile.TemporaryDirectory(prefix="filemem-eval-") as folder:
        paths = file_names(each.documents)
        moved = {name: path for name, path in paths.items() if path != f"{name}.md"}
        for name, (title, text) in each.documents.items():
            target = Path(folder, STORE, paths[name])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(
                _relinked(written(title, text), moved).encode("utf-8", "surrogatepass")
            )
        _commit(folder)
        with filemem.open(folder, store=STORE) as memory:
            yield Asked(memory, {path: name for name, path in paths.items()})


def written(title: str, text: str) -> str:
    """Return the bytes of a record: the text as it is, under its title where it begins with nothing like one."""
    start = text.removeprefix("\ufeff").lstrip()
    if not title or start.startswith("---\n") or _HEADING.match(start):
        return text
    return f"# {' '.join(title.split())}\n\n{text}"


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the file of each document, `<id>.md`; what no file may be called or a store reads otherwise is escaped."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for document in ids:
        base = "/".join(_safe(part, first=at == 0) for at, part in enumerate(document.split("/")))
        name, again = f"{base}.md", 1
        while (
            name.casefold() in used
        ):  # two ids that differ by case only are one file on some systems
            again += 1
            name = f"{base}~{again}.md"
        used.add(name.casefold())
        names[document] = name
    return names


def _safe(part: str, *, first: bool) -> str:
    if not (_PLAIN.fullmatch(part) and len(part.encode()) <= _LONGEST) or (
        part.casefold() in _TAKEN and (first or part.casefold() == "readme")
    ):
        escaped = "".join(
            char if char.isalnum() or (char in "-_." and at) else f"~{ord(char):x}"
            for at, char in enumerate(part)
        )
        part = f"~{escaped or ''}"
    return part.encode()[:_LONGEST].decode("utf-8", "ignore")


def _relinked(text: str, moved: Mapping[str, str]) -> str:
    """Let links to documents whose name had to be escaped lead to where they are."""
    for document, path in moved.items():
        old, new = PurePosixPath(f"{document}.md").name, PurePosixPath(path).name
        if old and old in text:
            text = text.replace(old, new)
    return text


def _commit(folder: str) -> None:
    settings = (
        "user.name=eval",
        "user.email=eval@example.org",
        "commit.gpgsign=false",
        "core.autocrlf=false",
    )
    options = [part for setting in settings for part in ("-c", setting)]
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "-A", "--force"),
        ("commit", "--quiet", "--no-verify", "-m", "A retrieval set"),
    ):
        subprocess.run(
            ["git", *options, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )


def _rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    plain, packed = folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"
    with (
        gzip.open(packed, "rt", encoding="utf-8")
        if packed.exists()
        else plain.open(encoding="utf-8") as lines
    ):
        for line in lines:
            if line.strip():
                yield json.loads(line)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set_dir", type=Path, metavar="SET_DIR")
    parser.add_argument("--out", type=Path, required=True, help="where the answers go")
    parser.add_argument("--mode", choices=MODES, default="hybrid")
    parser.add_argument(
        "--hits", type=int, default=HITS, help="documents asked for per question (%(default)s)"
    )
    given = parser.parse_args()
    try:
        asked_of = load(given.set_dir)
    except FileNotFoundError as error:
        sys.exit(
            f"{error.filename}: no such file; SET_DIR must hold corpus.jsonl (or .gz) and queries.jsonl"
        )
    with store_of(asked_of) as asked, given.out.open("w", encoding="utf-8") as out:
        for question in asked_of.questions:
            ranked = asked.ranked(question.text, given.mode, given.hits)
            out.write(json.dumps({"qid": question.id, "ranked": ranked}, ensure_ascii=False) + "\n")
    print(
        f"{len(asked_of.questions)} questions to {len(asked_of.documents)} documents -> {given.out}"
    )


if __name__ == "__main__":
    main()
