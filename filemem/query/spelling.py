"""Words that differ by one slip of the fingers. Pure."""

from itertools import takewhile

SHORTEST = 5  # letters; nearly every shorter word is one slip away from another


def may_be_misspelt(word: str) -> bool:
    """Say whether it makes sense to look for another spelling: a word of letters, and not a short one."""
    return len(word) >= SHORTEST and word.isalpha()


def one_slip(a: str, b: str) -> bool:
    """Say whether one letter was left out, put in, or changed, or two neighbours were swapped."""
    if abs(len(a) - len(b)) > 1 or a == b:
        return False
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    a, b = a[same:], b[same:]
    if len(a) == len(b):
        return a[1:] == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])
    return a[1:] == b or a == b[1:]
