"""The recipe of the bundled embedding model: from a folder of text to the files in `filemem/model`.

Rule: nothing here is imported by filemem, and nothing here is needed to use it. Each stage is one module with one
`run(work)`: it reads what earlier stages left in the work folder and leaves one output there. `recipe.py` holds every
number; `python -m tools.model FOLDER --out DIR` runs all stages in order.

Importing the package keeps the numeric libraries to one thread: threads that fight for busy cores made a training
step twenty times slower, and one thread adds in one order, so that two runs give the same bits.
"""

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
