"""What filemem does, in two minutes: on this repository's own memory, then on a folder of decision records.

`make demo` runs it, in scratch copies: nothing here is touched. On a terminal it waits a little after each answer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIVELY = sys.stdout.isatty()
PACE = 0.035  # seconds for each word that was shown, so that the eye keeps up
PERSON = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
PERSON |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in PERSON.items()}
BOLD, DIM, CYAN = "1", "2", "36"

OWN = """
# You ask in your own words. Number 1 holds today; below it stands what it replaced.
$ filemem search "how are vectors compared?" -n 2

# Before you change a line: which decision is behind it?
$ filemem why filemem/repo/commit.py:40 -n 1

# A session on a branch begins with what governs the files that the branch touches.
$ git switch -q -c faster-search && echo "# faster" >> filemem/index/vectors.py
$ filemem brief --budget 200
"""
ADOPTED = """
# A small shop keeps its decisions in docs/adr, as many projects do. They are read where they are.
$ ls docs/adr
$ filemem --store docs/adr init | head -4
$ filemem search "which database has the orders?" -n 2

# You decide something new. The save is one Markdown file and one commit.
$ filemem save decision --topic "mail retries" --decision "Try a mail three times" \\
    --reasoning "Servers are back within an hour." --affects src/mail.py
$ git show --stat --format='%an: %s' | cat

# Somebody adds a line by hand, in any editor. It is found at once.
$ echo "The second try delivers 97 of 100." >> docs/adr/0005-try-a-mail-three-times.md
$ filemem search "how often does the second try help?" -n 1
$ filemem status
$ git commit -q -am "Measured"

# Two branches decide one question differently, and are merged. Git has no conflict; filemem sees the fork.
$ git switch -q -c patient
$ filemem save decision --topic "mail retries" --decision "Try a mail for two days" \\
    --reasoning "Some servers are down longer." | head -1
$ git switch -q main
$ filemem save decision --topic "mail retries" --decision "Try a mail five times" \\
    --reasoning "Three times was too few." | head -1
$ git merge -q --no-edit patient
$ filemem status

# One decision ends it, and the whole story stays.
$ filemem resolve "mail retries" --decision "Try a mail ten times in two days" \\
    --reasoning "Both were right: more often, and longer." | head -1
$ filemem history "mail retries" --oneline
"""


def said(text: str, *colours: str) -> None:
    """Show a text, coloured on a terminal, at a pace at which it can be read."""
    begin = "".join(f"\033[{one}m" for one in colours) if LIVELY else ""
    print(f"{begin}{text}\033[0m" if begin else text, flush=True)
    time.sleep(PACE * len(text.split()) if LIVELY else 0)


def act(title: str, script: str, folder: Path) -> None:
    """Run the commands of a script in a folder as they are shown, with its comments between them."""
    width = min(shutil.get_terminal_size((110, 40)).columns, 110)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        **PERSON,
        "PATH": path,
        "HOME": str(folder.parent),
        "LC_ALL": "C.UTF-8",
    }
    said(f"\n{title}\n{'=' * len(title)}", BOLD)
    for comment, command in re.findall(r"^(# .*)|^\$ ((?:.*\\\n)*.*)", script, re.MULTILINE):
        if comment:
            said(f"\n{comment}", DIM)
            continue
        said(f"$ {command}", CYAN)
        shell = ["bash", "-c", command]
        done = subprocess.run(
            shell, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"the demo failed: {done.stderr}")
        for line in done.stdout.splitlines():
            deeper = " " * (len(line) - len(line.lstrip()) + 5)
            rows = textwrap.TextWrapper(
                width, "  ", deeper, break_long_words=False, break_on_hyphens=False
            ).wrap(line)
            for row in rows or [""]:
                said(row)


def main() -> None:
    """Make the two scratch copies and play both acts."""
    with tempfile.TemporaryDirectory(prefix="filemem-demo-") as scratch:
        own, shop = Path(scratch, "filemem"), Path(scratch, "shop")
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(own)], check=True)
        shutil.copytree(ROOT / "fixtures" / "adr", shop / "docs" / "adr")
        (shop / "src").mkdir()
        (shop / "src" / "mail.py").write_text("def send(): ...\n", encoding="utf-8")
        begin = "git init -q -b main && git add . && git commit -q -m 'The shop'"
        subprocess.run(["bash", "-c", begin], cwd=shop, env={**os.environ, **PERSON}, check=True)
        act("This project's own memory", OWN, own)
        act("A folder of decision records", ADOPTED, shop)
    said(
        "\nThat is all: Markdown files, Git commits, and a search. An agent does the same over MCP."
    )
    said("Start in a project of yours with `filemem init`; docs/start.md has the first hour.")


if __name__ == "__main__":
    main()
