"""Stage 3: what the teacher says of every token and of every text.

Rule: the only stage that runs the teacher, and the slow one; its outputs are all that training needs of it. Vectors
are the mean over all positions, as the teacher was trained, at unit length. It computes in bfloat16, so another
processor may give slightly other bits: keep the outputs where the same model must come out again.
Out: `entries.npy`, a row per token, and `taught.npy`, two rows per pair; a run that is cut short goes on from the
last finished block.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

from tools.model.extract import OUTPUT as PAIRS
from tools.model.recipe import RECIPE, complete, read_lines, run_alone
from tools.model.vocabulary import OUTPUT as TOKENS
from tools.model.vocabulary import teacher_folder

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

OUTPUT = "taught.npy"
ENTRIES = "entries.npy"
_BLOCK = 4096  # pairs
_POSITIONS = 4096  # of one call of the teacher
_MARKS = ("[CLS]", "[SEP]", "[PAD]")


class Teacher:
    """The teacher, ready to read."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        folder = teacher_folder()
        self._model: Any = AutoModel.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self.width: int = self._model.config.hidden_size
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(RECIPE.tokens + 2)
        known: dict[str, int] = self.tokenizer.get_vocab()
        self.first, self.last, self._pad = (known[mark] for mark in _MARKS)

    def texts(self, texts: Sequence[str]) -> Floats:
        """Return one vector per text, of length 1."""
        return self.ids([one.ids for one in self.tokenizer.encode_batch(list(texts))])

    def ids(self, rows: Sequence[Sequence[int]]) -> Floats:
        """Return one vector per row of token numbers, of length 1."""
        out = np.zeros((len(rows), self.width), dtype=np.float32)
        for some in _by_length(rows):
            width = max(len(rows[at]) for at in some)
            ids = torch.tensor([[*rows[at], *[self._pad] * (width - len(rows[at]))] for at in some])
            mask = torch.tensor(
                [[1] * len(rows[at]) + [0] * (width - len(rows[at])) for at in some]
            )
            with torch.inference_mode():
                found = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
                mean = (found * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
            out[some] = torch.nn.functional.normalize(mean, dim=1).numpy()
        return out


def _by_length(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield groups of row numbers of like length, each within `_POSITIONS`."""
    group: list[int] = []
    for at in sorted(range(len(rows)), key=lambda one: (len(rows[one]), one)):
        if group and (len(group) + 1) * len(rows[at]) > _POSITIONS:
            yield group
            group = []
        group.append(at)
    if group:
        yield group


def entries(teacher: Teacher, tokens: Sequence[str]) -> Floats:
    """Return what the teacher says of each token standing alone.

    Args:
        teacher: ready to read.
        tokens: word pieces of the teacher, or whole words.
    """
    rows = []
    for token in tokens:
        known = teacher.tokenizer.token_to_id(token)
        inner = (
            [known]
            if known is not None
            else teacher.tokenizer.encode(token, add_special_tokens=False).ids
        )
        rows.append([teacher.first, *inner, teacher.last])
    return teacher.ids(rows)


def _name(texts: Sequence[str]) -> str:
    """Return what the vectors of a block are filed under: other texts, or other cuts of them, are another block."""
    told = json.dumps([RECIPE.tokens, *texts], ensure_ascii=False)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def run(work: Path) -> None:
    """Write the vectors of the tokens and of the pairs."""
    teacher = Teacher()
    vocabulary: dict[str, int] = Tokenizer.from_file(str(work / TOKENS)).get_vocab()
    began = time.monotonic()
    with complete(work / ENTRIES) as part, part.open("wb") as file:
        np.save(file, entries(teacher, sorted(vocabulary, key=vocabulary.__getitem__)))
    print(f"tokens read in {time.monotonic() - began:.0f} s", flush=True)
    pairs = [(row["q"], row["p"]) for row in read_lines(work / PAIRS)]
    blocks = []
    for at in range(0, len(pairs), _BLOCK):
        texts = [text for pair in pairs[at : at + _BLOCK] for text in pair]
        path = work / "blocks" / f"{_name(texts)}.npy"
        if not path.exists():
            found = teacher.texts(texts).reshape(-1, 2, teacher.width)
            with complete(path) as part, part.open("wb") as file:
                np.save(file, found.astype(np.float16))
            print(
                f"{at + len(found)} of {len(pairs)} pairs, {time.monotonic() - began:.0f} s",
                flush=True,
            )
        blocks.append(path)
    with complete(work / OUTPUT) as part, part.open("wb") as file:
        np.save(file, np.concatenate([np.load(path) for path in blocks]))


if __name__ == "__main__":
    run_alone(run, __doc__ or "")
