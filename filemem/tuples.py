"""`NamedTuple` as of `typing`, without a look at the types: a tenth of what a command costs.

`typing` compiles the annotation of each field at import, before Python 3.14, and nothing here reads
the result. Type checkers see their own.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    _MADE = ("__annotations__", "__module__", "__qualname__")  # by `namedtuple` and below

    class _Maker(type):
        """Makes a named tuple of the body of a class."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body["__annotations__"]
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__ = fields
            made.__qualname__ = body["__qualname__"]
            for key, value in body.items():
                if key not in _MADE:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """The base of a class that becomes a named tuple."""
