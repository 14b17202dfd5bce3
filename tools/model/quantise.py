"""Stage 5: the matrix as files that filemem and model2vec read.

Rule: one byte per number and one scale per row, which costs nothing that can be measured; the rows' weights ride in
the scales. The first dimensions of the matrix are a model of their own, for it was trained so.
Out: a folder `static-N` per number of dimensions, in model2vec's layout.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save

from tools.model.recipe import RECIPE, run_alone
from tools.model.train import OUTPUT as ROWS
from tools.model.vocabulary import OUTPUT as TOKENS

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

OUTPUT = f"static-{RECIPE.dims[-2][0]}"  # the last that is written, and the one that ships
_HIGHEST = 127


def in_bytes(rows: Floats) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Return rows as whole numbers up to 127, and what each row is to be multiplied by.

    Args:
        rows: vectors; a common factor does not matter, for the sum of a text is brought to length 1.
    """
    scales = np.abs(rows).max(axis=1, keepdims=True)
    whole = np.rint(rows / np.where(scales > 0, scales, 1) * _HIGHEST)
    return whole.astype(np.int8), (scales[:, 0] / scales.max()).astype(np.float16)


def write(folder: Path, rows: Floats, tokenizer: Path) -> str:
    """Write a model and return the hash of its matrix.

    Args:
        folder: made when missing.
        rows: a vector per token.
        tokenizer: file that goes with it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole, weights = in_bytes(rows)
    data = save({"embeddings": whole, "weights": weights})
    (folder / "model.safetensors").write_bytes(
        data
    )  # not save_file, which lets only the owner read it
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "tokenizer_name": "all-MiniLM-L6-v2 wordpiece, pruned and extended",
        "hidden_dim": rows.shape[1],
        "normalize": True,
        "seq_length": 1_000_000,
        "max_length": None,
        "embedding_dtype": "int8",
    }
    kinds = ((".", "StaticEmbedding"), ("1_Normalize", "Normalize"))
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds)
    ]
    (folder / "config.json").write_text(json.dumps(config, indent=4) + "\n", encoding="utf-8")
    (folder / "modules.json").write_text(json.dumps(modules, indent=4) + "\n", encoding="utf-8")
    return hashlib.sha256(data).hexdigest()


def run(work: Path, out: Path | None = None) -> None:
    """Write one model per trained number of dimensions, but the smallest.

    Args:
        work: folder of the stages' outputs.
        out: where the models go; the work folder unless said.
    """
    rows = np.load(work / ROWS)
    for dims, _ in RECIPE.dims[:-1]:
        name = f"static-{dims}"
        print(name, write((out or work) / name, rows[:, :dims], work / TOKENS))


if __name__ == "__main__":
    run_alone(run, __doc__ or "")
