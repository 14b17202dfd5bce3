"""What Project-Memory's tools do. The summary is made of sentences of the text itself and stands beside it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from filemem.dialects.reading import Answer, Arguments, Reader, asides, everything, in_words
from filemem.dialects.reading import search as find
from filemem.record import OBSERVATION

if TYPE_CHECKING:
    from filemem.memory import Memory

SUMMARY = 300  # characters; a text that is not much longer needs no summary
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?。！？]+|\n|\Z)")
_WORD = re.compile(r"\w{4,40}|[\u3040-\u9fff\uac00-\ud7a3]")


def save_context(memory: Memory, arguments: Arguments) -> Answer:
    """Save a text, whole."""
    text = arguments["context_text"]
    short = summary(text)
    more = {"metadata": {"summary": short} if short else None, "allow_secret": arguments.get("allow_secret")}
    with in_words(text="context_text"):
        saved = memory.save(type=OBSERVATION, kind="context", text=text, **more)
    waits = {name: value for name in ("pending", "degraded") if (value := getattr(saved, name))}
    return {"status": "success", "id": saved.id, **waits}


def retrieve_context(memory: Memory, arguments: Arguments) -> Answer:
    """Find the texts nearest to a query; each is whole."""
    reader = Reader.of(memory)
    found = find(memory, arguments["query"], reader.may_see, arguments.get("limit", 5))
    results = [everything(hit.record) for hit in found]
    return {"status": "success", "results": results, "ids": [hit.id for hit in found], **asides(found)}


def summary(text: str) -> str:
    """The sentences of a text that share most words with the others, in their order; empty for a short text."""
    if len(text) <= SUMMARY + SUMMARY // 2:
        return ""
    sentences = [" ".join(match[0].split()) for match in _SENTENCE.finditer(text[:50_000])]
    words = [Counter(_WORD.findall(sentence.casefold())) for sentence in sentences]
    common: Counter[str] = sum(words, Counter())
    worth = [sum(common[word] - found[word] for word in found) / (len(found) + 3) for found in words]
    chosen, room = set(), SUMMARY
    for place in sorted(range(len(sentences)), key=lambda at: (-worth[at], at)):
        if worth[place] and len(sentences[place]) < room:
            chosen.add(place)
            room -= len(sentences[place]) + 1
    return " ".join(sentences[place] for place in sorted(chosen))
