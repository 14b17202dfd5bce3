"""Rows about searching in a warm server, against the tool that a developer would reach for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from bench.measure import Samples, Surroundings, in_turns, timed
from bench.stdio import Server
from bench.stores import STORE, Repository, Stores
from bench.table import Line

ROUNDS = 40
WARM = 5  # questions before the first that counts


def measure(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure the same questions in turns: a hybrid search over MCP, and a search of the files for any of the words."""
    for size in sizes:
        tool, ours, theirs = _one_size(stores.get(size))
        yield Line("search", size, ours.p50 / theirs.p50, str(ours), f"{tool}, same words, same files: {theirs}")
        yield Line("tail-search", size, ours.p95 / ours.p50, str(ours))


def _one_size(repository: Repository) -> tuple[str, Samples, Samples]:
    tool, command = _rival()
    questions = repository.queries(ROUNDS + WARM)
    asked, grepped = iter(questions[WARM:]), iter(questions[WARM:])
    with Server(repository.surroundings, "filemem", "serve") as server:
        server.greet()
        for question in questions[:WARM]:
            server.call("search", query=" ".join(question))
        methods = {
            "ours": lambda: _ask(server, next(asked)),
            "theirs": lambda: _grep(repository.surroundings, command, next(grepped)),
        }
        samples = in_turns(methods, ROUNDS)
    return tool, samples["ours"], samples["theirs"]


def _rival() -> tuple[str, list[str]]:
    """The fastest search of files that is here: its name, and how it lists the files that hold any of some words."""
    if shutil.which("rg"):
        return "ripgrep", ["rg", "--ignore-case", "--fixed-strings", "--files-with-matches"]
    return "git grep", ["git", "grep", "--ignore-case", "--fixed-strings", "--files-with-matches"]


def _ask(server: Server, words: list[str]) -> float:
    return timed(lambda: server.call("search", query=" ".join(words)))


def _grep(surroundings: Surroundings, command: list[str], words: list[str]) -> float:
    patterns = [part for word in words for part in ("-e", word)]
    return timed(lambda: surroundings.run(*command, *patterns, "--", STORE, check=False))
