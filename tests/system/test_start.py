"""docs/start.md cannot lie: its commands are run, and print what stands there."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support import IDENTITY
from tests.system.tools import FILEMEM

PAGE = Path(__file__).parents[2] / "docs/start.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", re.MULTILINE)
_MASKS = (
    (r"\d{4}-\d\d-\d\d(T[\d:.]+Z)?", "DATE"),
    (r"\b\d{4}/\d\d/(?=\d{8}|\w+--)", "MONTH/"),
    (r"\b\d{8}-", "DAY-"),
    (r"_\d{13}_", "_TIME_"),
    (r"\b(?=[a-f]*\d)[0-9a-f]{10}\b", "COMMIT"),
)


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Every command of a page, and what stands below it."""
    for block in _BLOCK.finditer(page):
        yield from _COMMAND.findall(block[1])


def masked(text: str, ids: set[str]) -> str:
    """A text without what differs between two runs."""
    for short in sorted(ids):
        text = text.replace(short, "SHORT_ID")
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text)
    return "".join(f"{row.rstrip()}\n" for row in text.splitlines())


def short_ids(text: str) -> set[str]:
    """The short ids of a text that states each in a whole id."""
    return set(re.findall(r"(?:decision|checkpoint|observation)_(?:\w+_)?\d{13}_(\w{8})", text))


def said(folder: Path, script: list[str]) -> list[str]:
    """What each of some commands prints, all of them run by one shell."""
    rows = (f"{command.rstrip()} 2>&1; echo {os.sep}--{os.sep}" for command in script)
    environment = {
        **os.environ,
        **IDENTITY,
        "PATH": f"{Path(FILEMEM).parent}{os.pathsep}{os.environ['PATH']}",
    }
    shell = ["bash", "-c", "\n".join(rows)]
    done = subprocess.run(
        shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.split(f"{os.sep}--{os.sep}\n")


def fits(expected: str, printed: str, here: set[str], there: set[str]) -> bool:
    """Whether a command printed what the page shows; a row of three dots there stands for any rows."""
    parts = re.split(r"(?m)^\.\.\.\n", masked(expected, here))
    pattern = r"(?:.*\n)*".join(map(re.escape, parts))
    return re.fullmatch(pattern, masked(printed, there)) is not None


def test_the_first_hour(tmp_path: Path) -> None:
    page = PAGE.read_text()
    told = list(commands(page))
    assert len(told) > 20
    found = said(tmp_path, [command for command, _ in told])
    here, there = short_ids(page), short_ids("".join(found))
    for (command, expected), printed in zip(told, found, strict=False):
        again = f"{command}{printed}\npython -m tests.system.test_start writes the page anew"
        assert fits(expected, printed, here, there), again


def rewrite(folder: Path) -> None:
    """Put what is printed now into the page; what leaves rows out stays."""
    page = PAGE.read_text()
    told = list(commands(page))
    printed = iter(said(folder, [command for command, _ in told]))
    kept = (
        old if "..." in old.splitlines() else now
        for (_, old), now in zip(told, printed, strict=False)
    )
    shown = (f"$ {command}{rows}" for (command, _), rows in zip(told, kept, strict=False))
    PAGE.write_text(
        _BLOCK.sub(
            lambda block: f"```console\n{_COMMAND.sub(lambda _: next(shown), block[1])}```", page
        )
    )


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        rewrite(Path(made))
