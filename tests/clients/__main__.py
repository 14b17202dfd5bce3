"""Real clients, each with an empty home and a model on loopback: `make clients`.

Each lists our server, and its first request holds our tools. On a branch that edits a governed file
its first request holds the governing decision once, also where two clients' files call the hook,
and no other decision. Prints what our tools and instructions cost there. Then a session of each
client that the model can drive is told at the right moments: see `sessions`. What our answers cost there: see `answers`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filemem.dialects import native
from tests.clients import answers, sessions
from tests.clients.model import Model
from tests.clients.toy import CLIENTS, Toy, installed, key

# What is ruled out: no subject of a commit has it.
GOVERNS = "one process has no Redis"
OTHER = "tabs are for tables"
WIRED = {
    **{name: (name,) for name in CLIENTS},
    "claude, both files": ("claude", "copilot"),
    "copilot, both files": ("claude", "copilot"),
    "copilot, file of claude": ("claude",),
}


def tried(row: str, model: Model, folder: Path) -> tuple[list[str], str]:
    """Ask one client in a project of its own; what is wrong, and what our server costs in its first request."""
    client = CLIENTS[row.partition(",")[0]]
    url = f"{model.address}/{key(row)}"
    toy = Toy(folder, client.variables(url))
    toy.begin({"src/cache.py": "one\n", "docs.md": "one\n"})
    toy.decide("cache", "About cache", "So", rejected=GOVERNS, affects="src/cache.py")
    toy.decide("docs", "About docs", "So", rejected=OTHER, affects="docs.md")
    toy.run("git", "switch", "-q", "-c", "feature")
    toy.put(toy.project, {"src/cache.py": "two\n"})
    # One after the other: init itself writes only one of two files that would both call.
    for name in WIRED[row]:
        toy.run("filemem", "init", "--client", name, "--hooks")
    toy.put(folder, client.files(toy.project, url))
    listed = re.search(client.listed, re.sub(r"\x1b\[\d*m", "", toy.run(*client.listing)))
    wrong = [] if listed else ["does not list the server"]
    printed = toy.run(*client.prompt)
    # Others ask for a title and the like.
    requests = [request for request in model.sent[key(row)] if "tools" in request]
    if not requests:
        return [*wrong, f"sent no request: {printed[-300:]}"], ""
    first = json.dumps(requests[0])
    for text, times in ((GOVERNS, 1), (OTHER, 0)):
        if first.count(text) != times:
            wrong.append(
                f"{text!r} stands {first.count(text)} times in its first request, not {times}"
            )
    listed_tools = tools(requests[0])
    if not listed_tools:
        wrong.append("its first request holds none of our tools")
    return wrong, cost(requests[0], listed_tools)


def tools(request: Any) -> dict[str, int]:
    """Our tools in a request, each with its tokens (characters / 4)."""
    found: dict[str, int] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            name = str(value.get("name") or "")
            if "filemem" in name and len(value) > 1:
                found[name] = len(json.dumps(value, ensure_ascii=False)) // 4
                return
            value = [*value.values()]
        for one in value if isinstance(value, list) else ():
            walk(one)

    walk(request)
    return found


def cost(request: Any, ours: Mapping[str, int]) -> str:
    """What our tools and the server's instructions cost in a request."""
    text = native.INSTRUCTIONS
    said = len(text) // 4 if text.partition("\n")[0] in json.dumps(request) else "not there"
    return f"{len(ours)} tools {sum(ours.values())} tokens, instructions {said}"


def main() -> int:
    """Ask all, or those named on the command line."""
    why = installed()
    if why:
        print(f"skipped: {why}")
        return 0
    model = Model()
    failed = False
    rows = dict.fromkeys(WIRED, tried)
    for module in (sessions, answers):
        rows |= dict.fromkeys(module.ROWS, module.tried)
    for row, check in rows.items():
        if not sys.argv[1:] or row in sys.argv[1:]:
            with tempfile.TemporaryDirectory(
                prefix="filemem-clients-", ignore_cleanup_errors=True
            ) as folder:
                wrong, costs = check(row, model, Path(folder))
            failed |= bool(wrong)
            print(f"{row}: {'; '.join(wrong) or 'ok'} ({costs})", flush=True)
    model.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
