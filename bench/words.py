"""Text that looks like what developers write: seeded, of real words, the same on every machine.

Ordinary words come with their true frequencies from the help texts that ship with Python; what sets one topic apart
from another comes from the vocabulary of the bundled model. Pure but for reading these two.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from pydoc_data.topics import topics
from random import Random

import filemem

COMMON = 600  # most frequent words of the model's vocabulary: too ordinary to set a topic apart
TERMS = 24  # words that belong to one topic
LENGTHS = range(7, 22)  # words in a sentence
VERBS = ("Use", "Keep", "Move to", "Replace", "Split", "Drop", "Cache", "Limit", "Store", "Prefer")


class Writer:
    """Writes text.

    Args:
        seed: the same seed writes the same text.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        counted = Counter(re.findall(r"[a-z]{2,}", " ".join(topics.values()).lower()))
        self._ordinary = sorted(counted, key=lambda word: (-counted[word], word))
        self._weights = list(accumulate(counted[word] for word in self._ordinary))

    @cached_property
    def special(self) -> Sequence[str]:
        """Words that set topics apart, the more frequent first."""
        tokenizer = Path(filemem.__file__).parent / "model" / "tokenizer.json"
        vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
        known = set(self._ordinary)
        words = [
            word
            for word in sorted(vocabulary, key=vocabulary.__getitem__)
            if re.fullmatch("[a-z]{4,}", word)
        ]
        return [word for word in words[COMMON:] if word not in known]

    def names(self, count: int) -> list[str]:
        """Return distinct special words."""
        return self.random.sample(self.special, count)

    def terms(self) -> list[str]:
        """Return the words of one topic, some of them rare."""
        return self.random.choices(self.special, k=TERMS)

    def identifier(self, terms: Sequence[str]) -> str:
        """Return a name as it stands in code: of a function, a class or a file."""
        one, two = self.random.choice(terms), self.random.choice(terms)
        forms = (
            f"`{one}_{two}()`",
            f"`{one.title()}{two.title()}`",
            f"`src/{one}/{two}.py`",
            f"`{one}.{two}`",
        )
        return self.random.choice(forms)

    def sentence(self, terms: Sequence[str]) -> str:
        """Return one sentence about a topic: two words in three are ordinary, one in twenty is code."""
        count = self.random.choice(LENGTHS)
        words = self.random.choices(self._ordinary, cum_weights=self._weights, k=count)
        for place in range(count):
            draw = self.random.random()
            if draw < 0.3:
                words[place] = self.random.choice(terms)
            elif draw < 0.35:
                words[place] = self.identifier(terms)
        return " ".join(words).capitalize() + "."

    def prose(self, terms: Sequence[str], length: int) -> str:
        """Return paragraphs of about `length` characters."""
        paragraphs, sentences, written = [], [], 0
        while written < length:
            sentences.append(self.sentence(terms))
            written += len(sentences[-1])
            if len(sentences) == 4:
                paragraphs.append(" ".join(sentences))
                sentences = []
        return "\n\n".join([*paragraphs, " ".join(sentences)]).strip()

    def title(self, terms: Sequence[str]) -> str:
        """Return what a decision says in one line."""
        one, two, three = self.random.sample(sorted(set(terms)), 3)
        return f"{self.random.choice(VERBS)} {one} {two} for the {three}"

    def query(self, terms: Sequence[str]) -> list[str]:
        """Return the words of a question about a topic."""
        return self.random.sample(sorted(set(terms)), 4)
