"""Our named tuples are those of `typing`, but for the look at the types."""

from __future__ import annotations

import typing

from filemem import tuples


class Ours(tuples.NamedTuple):
    """A point."""

    x: int
    y: list[str] | None = None
    z: str = ""

    @property
    def double(self) -> int:
        return 2 * self.x

    @classmethod
    def zero(cls) -> Ours:
        return cls(0)


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: list[str] | None = None
    z: str = ""


def test_fields_defaults_names_and_methods_are_those_of_typing() -> None:
    assert Ours._fields == Theirs._fields
    assert Ours._field_defaults == Theirs._field_defaults
    assert (Ours.__doc__, Ours.__module__, Ours.__qualname__) == ("A point.", __name__, "Ours")
    assert issubclass(Ours, tuple)
    assert Ours(3, z="a")._replace(x=4).double == 8
    assert Ours.zero() == (0, None, "") == Ours._make([0, None, ""])
    assert repr(Ours(1)) == repr(Theirs(1)).replace("Theirs", "Ours")
    assert [*Ours.__annotations__] == ["x", "y", "z"]
