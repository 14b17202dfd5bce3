"""What Git would do to a file's bytes on their way into a commit: line endings, and filters that we do not run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from filemem.repo import rules
from filemem.repo.git import Git
from filemem.repo.settings import Settings

_ASKED = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")
_HARMLESS_CONTROLS = frozenset(b"\b\t\n\f\r\x1b")


class Conversion(NamedTuple):
    """What becomes of the bytes of one path.

    Args:
        attributes: of the path, as far as they bear on its bytes; absent where unspecified.
        settings: Git's configuration.
    """

    attributes: Mapping[str, str]
    settings: Settings

    @property
    def obstacle(self) -> str:
        """Why the path cannot be committed by us, or ""."""
        driver = self.attributes.get("filter", "unset")
        drivers = ("clean", "process", "required")
        if driver not in ("unset", "set") and any(self.settings.text_of("filter", driver, key) for key in drivers):
            return f"left uncommitted: the path is under the filter {driver!r}; commit it with Git"
        for name in ("ident", "working-tree-encoding"):
            if self.attributes.get(name, "unset") != "unset":
                return f"left uncommitted: the path has the attribute {name!r}; commit it with Git"
        return ""

    def committed(self, data: bytes, old: bytes | None) -> bytes:
        """The bytes that Git would commit for the file.

        Args:
            data: the file.
            old: its committed version, if any: Git leaves line endings alone that are committed already.
        """
        if b"\r\n" not in data:
            return data
        rule = self._rule()
        if rule == "auto" and (_looks_binary(data) or (old is not None and b"\r\n" in old and not _looks_binary(old))):
            return data
        return data if rule == "binary" else data.replace(b"\r\n", b"\n")

    def _rule(self) -> str:
        """`text` (always convert), `auto` (if it looks like text) or `binary` (never)."""
        found = self.attributes
        stated = found.get("text") or {"input": "set"}.get(found.get("crlf", ""), found.get("crlf"))
        if stated in ("set", "auto", "unset"):
            return {"set": "text", "auto": "auto", "unset": "binary"}[stated]
        if found.get("eol") in ("lf", "crlf"):
            return "text"
        converting = (self.settings.text("core.autocrlf") or "").lower() in ("true", "input", "yes", "on", "1")
        return "auto" if converting else "binary"


def of(git: Git, settings: Settings, path: str) -> Conversion:
    """The conversion of a path; a process is started only where attribute files exist."""
    if not any(file.exists() for file in rules.attributes(git, settings, path)):
        return Conversion({}, settings)
    answer = git.run("check-attr", "-z", "--stdin", *_ASKED, input=os.fsencode(path) + b"\0")
    fields = answer.decode("utf-8", "surrogateescape").split("\0")
    pairs = zip(fields[1::3], fields[2::3], strict=False)
    return Conversion({name: value for name, value in pairs if value != "unspecified"}, settings)


def _looks_binary(data: bytes) -> bool:
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return True
    controls = sum((byte < 32 and byte not in _HARMLESS_CONTROLS) or byte == 127 for byte in data)
    return (len(data) - controls) >> 7 < controls
