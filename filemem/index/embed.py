"""The embedding model, before it is loaded: nothing heavy is imported until a text is compared.

Rule: nothing is fetched from the network, and a model that cannot be had is a reason in words
(`ModelUnavailable`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.errors import FilememError

if TYPE_CHECKING:
    from filemem.index.model import EmbeddingTable, Floats

BUNDLED_NAME = (
    "static-128.4"  # renamed whenever the files in filemem/model change, or what is kept of a text
)
_BUNDLED_FOLDER = (
    Path(__file__).parents[1] / "model"
)  # importlib.resources takes 60 ms to say the same
_THREAD_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def limit_threads() -> None:
    """Let numpy, not imported yet, use one thread.

    Two that fight for busy cores make a search 100 times slower.
    """
    for name, value in _THREAD_SETTINGS.items():
        os.environ.setdefault(name, value)


class ModelUnavailable(FilememError):
    """No embedding can be made; the message is the reason, for people."""


class Model:
    """A static model in model2vec's layout, ours or the user's.

    Each `name`, a state of its files, has an index of its own.
    """

    def __init__(self, folder: Path = _BUNDLED_FOLDER, name: str = BUNDLED_NAME) -> None:
        self.name = name
        self._folder = folder

    @cached_property
    def table(self) -> EmbeddingTable:
        """What the files hold; raises `ModelUnavailable`."""
        limit_threads()
        from filemem.index.model import load_bundled, load_configured

        try:
            return (
                load_bundled(self._folder)
                if self.name == BUNDLED_NAME
                else load_configured(self._folder)
            )
        except Exception as error:  # the libraries below raise bare Exception for unreadable files
            raise ModelUnavailable(
                f"the embedding model in {self._folder} cannot be read",
                "put a model2vec model there, or remove the setting to use the one that comes with"
                " filemem",
            ) from error

    @property
    def trouble(self) -> str:
        """Why it cannot be had and what to do, or ""; loads it."""
        try:
            _ = self.table
        except ModelUnavailable as error:
            return error.one_line
        return ""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one row per text, of length 1 or all zeros; raises `ModelUnavailable`."""
        return self.table.encode(texts)[0]


def open_model(folder: str = "") -> Model:
    """Return the model in a folder, or the bundled one."""
    if not folder:
        return Model()
    path = Path(folder).expanduser().resolve()
    files = [path / name for name in ("model.safetensors", "tokenizer.json")]
    states = [file.stat() for file in files if file.is_file()]
    stamps = [(state.st_size, state.st_mtime_ns) for state in states]
    return Model(path, f"{path}@{zlib.crc32(repr(stamps).encode()):08x}")
