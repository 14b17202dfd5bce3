"""Sessions of real clients that a scripted model drives: what comes back with each tool's result.

Who opens a governed file, adds a dependency that is ruled out and runs a test that fails in a known
way is told three times, once each, in 250 tokens. Who does the same where nothing is decided is
told nothing. All is done twice: the second time is silent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.clients.model import Call, Model, contents, messages, responses
from tests.clients.toy import CLIENTS, Toy, key

TOLD = "Project memory (reference data, not instructions): "
BUDGET = 250  # tokens of four characters
BUSY = {
    "it governs this file": "Ruled out: Decimal",
    "redis comes in here": "one more service to run",
    "this failure looks known": "the clock of the runner",
}
"""What a session is told of, in this order, and what each time says."""
AFTER = {part: detail for part, detail in BUSY.items() if not part.startswith("redis")}
"""The same where a hook is called after an edit: manifests are not compared."""
ROWS: Mapping[str, Mapping[str, str]] = {
    "claude, session": BUSY,
    "claude, quiet session": {},
    "codex, session": BUSY,
    "codex, quiet session": {},
    "gemini, session": AFTER,
    "gemini, quiet session": {},
}
"""Row -> what its session is told."""
SCRIPTS = {
    "claude": messages,
    "codex": responses,
    "gemini": contents,
    "opencode": messages,
}
# Of Claude Code in a print, and of Codex without a sandbox: a container may have none.
OPTIONS = {
    "claude": ["--permission-mode", "acceptEdits", "--allowedTools", "Read,Edit,Bash"],
    "codex": ["--dangerously-bypass-approvals-and-sandbox"],
    "gemini": [],
}
_FAILS = "import sys\nsys.exit('E   AssertionError: {} 1 failed in 0.2s')\n"
FILES = {
    "src/money.py": "total = 1\n",
    "src/other.py": "total = 1\n",
    "requirements.txt": "httpx\n",
    "known.py": _FAILS.format("test_retry_backoff took 4.1 s."),
    "unknown.py": _FAILS.format("3 is not 4."),
}


def tried(row: str, model: Model, folder: Path) -> tuple[list[str], str]:
    """Drive one client through a session; what is wrong, and what it was told of costs."""
    name = row.partition(",")[0]
    client = CLIENTS[name]
    url = f"{model.address}/{key(row)}"
    toy = Toy(folder, client.variables(url))
    toy.begin(FILES)
    reasoning = "Floats lose cents."
    rejected = "Decimal: slow in the report"
    toy.decide("money", "Amounts are cents", reasoning, rejected=rejected, affects="src/money.py")
    toy.decide(
        "cache", "Keep an LRU cache", "One process.", rejected="Redis: one more service to run"
    )
    text = "test_retry_backoff fails for the clock of the runner: run it again."
    toy.run("filemem", "save", "observation", "--title", "A flaky test", "--text", text)
    toy.run("filemem", "init", "--client", name, "--hooks=edits,failures")
    toy.put(folder, client.files(toy.project, url))
    if name == "codex":  # a model that has its own tool for patches
        settings = folder / ".codex/config.toml"
        settings.write_text(settings.read_text().replace('"gpt-5"', '"gpt-5.5"'))
    calls = _calls(name, toy.project, busy=bool(ROWS[row]))
    model.scripts[key(row)] = SCRIPTS[name](calls)
    words = [*client.prompt, *OPTIONS[name]]
    printed = toy.run(*words)
    requests = [request for request in model.sent[key(row)] if "tools" in request]
    if len(requests) != len(calls) + 1:
        return [f"sent {len(requests)} requests, not {len(calls) + 1}: {printed[-300:]}"], ""
    told = [*_told(requests[-1])]
    wrong = _wrong(told, ROWS[row])
    return wrong, f"told {len(told)} times in {_tokens(told)} tokens"


def _wrong(told: list[str], wanted: Mapping[str, str]) -> list[str]:
    wrong = []
    if len(told) != len(wanted):
        wrong.append(f"told {len(told)} times, not {len(wanted)}: {told}")
    for text, (part, detail) in zip(told, wanted.items(), strict=False):
        if part not in text or detail not in text:
            wrong.append(f"{part!r} and {detail!r} are not in {text!r}")
    if _tokens(told) > BUDGET:
        wrong.append(f"more than {BUDGET} tokens")
    return wrong


def _tokens(texts: list[str]) -> int:
    return sum(map(len, texts)) // 4


def _calls(name: str, project: Path, *, busy: bool) -> list[Call]:
    """What the model calls: edits of a source file and a manifest, a command, a test that fails."""
    file = "src/money.py" if busy else "src/other.py"
    library = "redis" if busy else "rich"
    test = "python3 known.py" if busy else "python3 unknown.py"
    if name == "codex":
        return [
            ("apply_patch", {"input": _patch(file, "total = 1", "total = 2")}),
            ("exec_command", {"cmd": _shelled(_patch("requirements.txt", "httpx", library))}),
            ("exec_command", {"cmd": test}),
            ("exec_command", {"cmd": _shelled(_patch(file, "total = 2", "total = 3"))}),
            ("exec_command", {"cmd": f"pip install --dry-run --no-index {library}"}),
            ("exec_command", {"cmd": test}),
        ]
    source = str(project / file)
    manifest = str(project / "requirements.txt")
    if name == "gemini":
        change = {"file_path": source, "instruction": "Change it."}
        return [
            ("read_file", {"file_path": source}),
            ("replace", {**change, "old_string": "total = 1", "new_string": "total = 2"}),
            ("run_shell_command", {"command": test, "description": "Test."}),
            ("replace", {**change, "old_string": "total = 2", "new_string": "total = 3"}),
            ("run_shell_command", {"command": test, "description": "Test."}),
        ]
    return [
        ("Read", {"file_path": source}),
        ("Edit", {"file_path": source, "old_string": "total = 1", "new_string": "total = 2"}),
        ("Read", {"file_path": manifest}),
        ("Edit", {"file_path": manifest, "old_string": "httpx", "new_string": library}),
        ("Bash", {"command": test}),
        ("Edit", {"file_path": source, "old_string": "total = 2", "new_string": "total = 3"}),
        ("Bash", {"command": f"pip install --dry-run --no-index {library}"}),
        ("Bash", {"command": test}),
    ]


def _patch(path: str, old: str, new: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"


def _shelled(patch: str) -> str:
    return f"apply_patch <<'EOF'\n{patch}\nEOF"


def _told(request: Any) -> Iterator[str]:
    """The texts of ours in a request, without the client's marks around them."""
    for text in _texts(request):
        for part in text.split(TOLD)[1:]:
            yield TOLD + re.split(r"\n*</", part)[0]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
