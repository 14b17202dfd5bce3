"""Stage 4: a vector per token, such that their sum says what the teacher says of the text.

Rule: no token starts from nothing and none gets far from where the teacher puts it: a row is
`weight * unit(teacher's entry @ map + own part)`, the own part starts at zero and learns slowly, so that rare words
keep a sensible vector. A matrix without that form over-fits and was 4 to 5 points worse.
Out: `rows.npy`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as fn

from tools.model.extract import OUTPUT as PAIRS
from tools.model.recipe import RECIPE, SEED, complete, read_lines, run_alone
from tools.model.teacher import ENTRIES
from tools.model.teacher import OUTPUT as TAUGHT
from tools.model.vocabulary import OUTPUT as TOKENS
from tools.model.vocabulary import PAD, UNKNOWN

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

OUTPUT = "rows.npy"
_NEVER = -1e4  # a logit


class Student(nn.Module):
    """The form of the model while it learns.

    Args:
        entries: what the teacher says of each token.
        counts: how often each token occurs in the text.
    """

    def __init__(self, entries: Tensor, counts: Tensor) -> None:
        super().__init__()
        width, teacher = RECIPE.dims[0][0], entries.shape[1]
        centred = fn.normalize(entries, dim=1)
        centred = centred - centred.mean(0)
        self.register_buffer("entries", centred)
        axes = torch.linalg.eigh(centred.T @ centred)[1].flip(1)  # columns, the widest axis first
        self.map = nn.Parameter(axes[:, :width].clone())
        self.own = nn.Embedding(len(entries), width, sparse=True)
        nn.init.zeros_(self.own.weight)
        start = torch.log(RECIPE.sif / (RECIPE.sif + counts / counts.sum()))
        self.register_buffer("start", start)
        self.weight = nn.Parameter(start.clone())
        self.back = nn.Linear(width, teacher, bias=False)

    def rows(self, tokens: Tensor) -> Tensor:
        """Return the vectors of some tokens."""
        place = fn.normalize(self.entries[tokens] @ self.map + self.own(tokens), dim=1)
        return place * self.weight[tokens].exp()[:, None]

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Return the sums of the vectors of some texts.

        Args:
            ids: tokens of all texts, one text after the other.
            offsets: where each text begins.
        """
        tokens, places = ids.unique(return_inverse=True)
        return fn.embedding_bag(places, self.rows(tokens), offsets, mode="sum")


@dataclass(frozen=True, slots=True)
class Texts:
    """The pairs as numbers; text 2n is the short one of pair n, text 2n + 1 its passage.

    Args:
        ids: tokens of each text.
        same: equal for two texts that are equal.
        repos: rows of pairs, by repository.
        taught: what the teacher says of each text.
    """

    ids: list[Ints]
    same: Tensor
    repos: list[Ints]
    taught: npt.NDArray[np.float16]

    @classmethod
    def read(cls, work: Path, tokenizer: Tokenizer) -> Texts:
        """Return what earlier stages left."""
        pairs = list(read_lines(work / PAIRS))
        texts = list(chain.from_iterable((pair["q"], pair["p"]) for pair in pairs))
        unknown = tokenizer.token_to_id(UNKNOWN)
        found = [
            np.array(one.ids, dtype=np.int64)
            for one in tokenizer.encode_batch(texts, add_special_tokens=False)
        ]
        first: dict[str, int] = {}
        same = torch.tensor([first.setdefault(text, at) for at, text in enumerate(texts)])
        names = np.array([pair["repo"] for pair in pairs])
        repos = [np.flatnonzero(names == name) for name in sorted(set(names))]
        taught = np.load(work / TAUGHT).reshape(len(texts), -1)
        return cls([ids[ids != unknown] for ids in found], same, repos, taught)

    def counts(self, tokens: int) -> Tensor:
        """Return how often each token occurs."""
        return torch.from_numpy(np.bincount(np.concatenate(self.ids), minlength=tokens)).float()

    def bags(self, texts: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the tokens of some texts, and where each text begins."""
        some = [self.ids[at] for at in texts]
        offsets = np.cumsum([0, *map(len, some[:-1])])
        return torch.from_numpy(np.concatenate(some)), torch.from_numpy(offsets)


def batches(texts: Texts) -> Iterator[Ints]:
    """Yield rows of pairs, in every other step or so from one repository, each as likely as it is large."""
    chance = np.random.default_rng(SEED)
    everything = np.concatenate(texts.repos)
    wide = [rows for rows in texts.repos if len(rows) >= RECIPE.batch]
    share = np.array([len(rows) for rows in wide], dtype=float)
    for _ in range(RECIPE.steps):
        one = chance.random() < RECIPE.same
        rows = wide[chance.choice(len(wide), p=share / share.sum())] if one else everything
        yield chance.choice(rows, RECIPE.batch, replace=False)


def contrast(short: Tensor, passages: Tensor, same: Tensor) -> Tensor:
    """Return how badly each text of a pair finds the other one.

    Args:
        short: vectors, of length 1.
        passages: theirs.
        same: number of each text, those of the short ones first.
    """
    size = len(short)
    twins = (same[:size, None] == same[None, :size]) | (same[size:, None] == same[None, size:])
    twins.fill_diagonal_(False)
    logits = (short @ passages.T / RECIPE.temperature).masked_fill(twins, _NEVER)
    target = torch.arange(size)
    return fn.cross_entropy(logits, target) + 0.5 * fn.cross_entropy(logits.T, target)


def mismatch(ours: Tensor, theirs: Tensor) -> Tensor:
    """Return how far our similarities between all texts of a step are from the teacher's.

    Args:
        ours: vectors, of length 1.
        theirs: logarithms of the teacher's softmaxes, a row per text.
    """
    itself = torch.eye(len(ours), dtype=torch.bool)
    logits = (ours @ ours.T / RECIPE.temperature).masked_fill(itself, _NEVER)
    return fn.kl_div(fn.log_softmax(logits, dim=1), theirs, log_target=True, reduction="batchmean")


def loss_of(student: Student, texts: Texts, rows: Ints) -> Tensor:
    """Return what a step is to make smaller.

    Args:
        student: the model.
        texts: all texts.
        rows: pairs of this step.
    """
    chosen = np.concatenate([2 * rows, 2 * rows + 1])
    taught = fn.normalize(torch.from_numpy(texts.taught[chosen]).float(), dim=1)
    itself = torch.eye(len(chosen), dtype=torch.bool)
    theirs = fn.log_softmax(
        (taught @ taught.T / RECIPE.temperature).masked_fill(itself, _NEVER), dim=1
    )
    full = student(*texts.bags(chosen.tolist()))
    total = RECIPE.pull * (student.weight - student.start).square().mean()
    total = (
        total
        + RECIPE.direct
        * (1 - fn.cosine_similarity(student.back(fn.normalize(full, dim=1)), taught)).mean()
    )
    for width, share in RECIPE.dims:
        ours = fn.normalize(full[:, :width], dim=1)
        pairs = contrast(ours[: len(rows)], ours[len(rows) :], texts.same[chosen])
        total = total + share * (pairs + RECIPE.match * mismatch(ours, theirs))
    return total


def rate_at(step: int) -> float:
    """Return the share of the learning rate at a step: up in a line, then down in half a cosine."""
    if step < RECIPE.warmup:
        return (step + 1) / RECIPE.warmup
    done = (step - RECIPE.warmup) / max(1, RECIPE.steps - RECIPE.warmup)
    return float(0.5 * (1 + np.cos(np.pi * done)))


def train(student: Student, texts: Texts) -> None:
    """Run all steps."""
    shared = [student.map, student.weight, student.back.weight]
    optimizers: list[Any] = [
        torch.optim.Adam(shared, lr=RECIPE.rate),
        torch.optim.SparseAdam([student.own.weight], lr=RECIPE.rate_own),
    ]
    schedules = [torch.optim.lr_scheduler.LambdaLR(one, rate_at) for one in optimizers]
    began, recent = time.monotonic(), 0.0
    for step, rows in enumerate(batches(texts), 1):
        student.zero_grad(set_to_none=True)
        loss = loss_of(student, texts, rows)
        loss.backward()
        for one in (*optimizers, *schedules):
            one.step()
        recent += float(loss.detach())
        if step % 100 == 0:
            print(
                f"step {step}: loss {recent / 100:.3f}, {time.monotonic() - began:.0f} s",
                flush=True,
            )
            recent = 0.0


def run(work: Path) -> None:
    """Write the matrix."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    tokenizer = Tokenizer.from_file(str(work / TOKENS))
    texts = Texts.read(work, tokenizer)
    entries = torch.from_numpy(np.load(work / ENTRIES))
    student = Student(entries, texts.counts(len(entries)))
    train(student, texts)
    with torch.no_grad():
        rows = student.rows(torch.arange(len(entries))).numpy()
    rows[[tokenizer.token_to_id(PAD), tokenizer.token_to_id(UNKNOWN)]] = 0
    with complete(work / OUTPUT) as part, part.open("wb") as file:
        np.save(file, rows)


if __name__ == "__main__":
    run_alone(run, __doc__ or "")
