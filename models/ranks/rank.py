"""One rank of a training: `python -m steersman.models.ranks.rank FOLDER`, started by launch() or a launcher.

FOLDER/job.json has target, arguments, strategy and timeout_s, see launch(); rank 0 saves FOLDER/model. A rank that
fails writes its error to FOLDER/rank<N>.error and ends with exit code 1. Where there are too many ranks, all of them
know it and none has failed: each writes the error's values to FOLDER/rank<N>.too_many. It ends with the process that
started it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

import torch

from steersman.models.errors import TooManyRanks
from steersman.models.ranks.launch import joined, place
from steersman.models.ranks.strategy import used
from steersman.system.errors import told
from steersman.system.processes import end_with_parent


def main(folder: Path) -> int:
    end_with_parent()
    where = place(os.environ)
    torch.set_num_threads(1)
    try:
        job = json.loads((folder / "job.json").read_text())
        module, _, name = job["target"].partition(":")
        target = getattr(import_module(module), name)
        with joined(where, job["timeout_s"]), used(job["strategy"]):
            model = target(**job["arguments"])
        if where.rank == 0:
            model.save(folder / "model")
    except TooManyRanks as error:
        (folder / f"rank{where.rank}.too_many").write_text(json.dumps(error.args))
    except Exception as error:  # whatever it is: the others and the process that waits must know
        traceback.print_exc()
        (folder / f"rank{where.rank}.error").write_text(told(error), encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is saved; one rank was once aborted after its last exchange, presumably on the way out
