"""The embedding model before it is loaded; numpy is imported when the first text is compared.

Nothing is fetched from the network. A model that cannot be read raises `ModelUnavailable`.
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

# Must change when the files in filemem/model change, or what is kept of a text.
BUNDLED_NAME = "static-128.4"
# importlib.resources would take 60 ms to find it.
_BUNDLED_FOLDER = Path(__file__).parents[1] / "model"
_THREAD_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def limit_threads() -> None:
    """Make numpy use one thread; call it before numpy is imported.

    Two threads on busy cores make a search 100 times slower.
    """
    for name, value in _THREAD_SETTINGS.items():
        os.environ.setdefault(name, value)


class ModelUnavailable(FilememError):
    """There is no model to use; the message says why."""


class Model:
    """A static model in the layout of model2vec, bundled or configured.

    Its name stands for one state of its files; each name has a separate index.
    """

    def __init__(self, folder: Path = _BUNDLED_FOLDER, name: str = BUNDLED_NAME) -> None:
        self.name = name
        self._folder = folder

    @cached_property
    def table(self) -> EmbeddingTable:
        """The loaded model. Raises ModelUnavailable."""
        limit_threads()
        from filemem.index.model import load_bundled, load_configured

        try:
            if self.name == BUNDLED_NAME:
                return load_bundled(self._folder)
            return load_configured(self._folder)
        except Exception as error:  # the libraries raise bare Exception for unreadable files
            raise ModelUnavailable(
                f"the embedding model in {self._folder} cannot be read",
                "put a model2vec model there, or remove the setting to use the one that comes with"
                " filemem",
            ) from error

    @property
    def trouble(self) -> str:
        """Why the model cannot be used and what to do, or ""; loads it."""
        try:
            _ = self.table
        except ModelUnavailable as error:
            return error.one_line
        return ""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each text, of length 1 or 0. Raises ModelUnavailable."""
        vectors, _, _ = self.table.encode(texts)
        return vectors


def open_model(folder: str = "") -> Model:
    """Return the model in a folder, or the bundled one; it is loaded later."""
    if not folder:
        return Model()
    path = Path(folder).expanduser().resolve()
    stamps = []
    for name in ("model.safetensors", "tokenizer.json"):
        file = path / name
        if file.is_file():
            state = file.stat()
            stamps.append((state.st_size, state.st_mtime_ns))
    stamp_hash = zlib.crc32(repr(stamps).encode())
    return Model(path, f"{path}@{stamp_hash:08x}")
