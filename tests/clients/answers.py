"""What real clients put before the model of our answers: the readable text, once, and no object.

Copilot is left out: its requests have a third form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.clients.model import Call, Model
from tests.clients.sessions import OPTIONS, SCRIPTS
from tests.clients.toy import CLIENTS, Toy, key

CALLS: tuple[Call, ...] = (
    ("search", {"query": "where do we keep cached prices"}),
    ("get", {"id": "cache"}),
    (
        "save",
        {
            "topic": "webhooks",
            "decision": "Sign webhooks with HMAC",
            "reasoning": "Partners asked.",
        },
    ),
)
# Row -> how its client names our tools. Before a slash stands the namespace of Codex.
ROWS: Mapping[str, str] = {
    "claude, answers": "mcp__filemem__{}",
    "codex, answers": "mcp__filemem/{}",
    "gemini, answers": "mcp_filemem_{}",
    "opencode, answers": "filemem_{}",
}
MOST = 90  # tokens of four characters, on average, with what the client puts around an answer


def tried(row: str, model: Model, folder: Path) -> tuple[list[str], str]:
    """Let one client call three tools; what is wrong, and what their answers cost."""
    name = row.partition(",")[0]
    client = CLIENTS[name]
    url = f"{model.address}/{key(row)}"
    toy = Toy(folder, client.variables(url))
    toy.begin({"src/cache.py": "one\n"})
    toy.decide("cache", "Keep lookups in an LRU cache", "One process.", rejected="Redis: a service")
    for number in range(6):
        toy.decide(f"part {number}", f"Choose option {number}", "It was measured.")
    toy.run("filemem", "init", "--client", name, "--hooks=none")
    toy.put(folder, client.files(toy.project, url))
    calls = [(ROWS[row].format(tool), arguments) for tool, arguments in CALLS]
    model.scripts[key(row)] = SCRIPTS[name](calls)
    words = [*client.prompt, *OPTIONS.get(name, [])]
    if name == "claude":
        words[-1] = ",".join(tool for tool, _ in calls)
    printed = toy.run(*words)
    requests = [request for request in model.sent[key(row)] if request.get("tools")]
    texts = [_text(result) for result in _results(requests[-1])] if requests else []
    if len(texts) != len(CALLS):
        return [f"{len(texts)} answers, not {len(CALLS)}: {printed[-300:]}"], ""
    tokens = [len(text) // 4 for text in texts]
    wrong = []
    if "1. Keep lookups in an LRU cache · holds" not in texts[0] or '"results"' in texts[0]:
        wrong.append(f"an answer is not the readable text: {texts[0][:200]}")
    if any(text.count("Keep lookups in an LRU cache") != 1 for text in texts[:1]):
        wrong.append("an answer stands there twice")
    if sum(tokens) > MOST * len(tokens):
        wrong.append("the answers are too long")
    return wrong, f"{', '.join(tool for tool, _ in CALLS)}: {tokens} tokens"


def _results(value: Any) -> Iterator[Any]:
    """What the tools of a request have answered."""
    if isinstance(value, list):
        for inner in value:
            yield from _results(inner)
    elif isinstance(value, dict):
        if value.get("type") in ("tool_result", "function_call_output"):
            yield value.get("content") or value.get("output")
        elif "functionResponse" in value:
            yield value["functionResponse"]["response"]
        else:
            yield from _results([*value.values()])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(_text(inner) for name, inner in value.items() if name != "type")
    return value if isinstance(value, str) else "".join(map(_text, value))
