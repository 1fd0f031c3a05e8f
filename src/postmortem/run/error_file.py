"""The file through which torchelastic's agent hears why a worker failed."""

import contextlib
import json
import os
from pathlib import Path


def write_error_file(path: Path, folder: Path, words: str, when: float) -> None:
    """Say in torchelastic's file how a process died that could say nothing any more, and when.

    Its agent reads the file when it sees the end, and prints it in its summary, whose root cause is
    the earliest: peers may have failed before a core was written. Of files below `folder`, which
    are ours, nobody reads that.
    """
    if path.is_relative_to(folder) or path == Path(os.devnull):
        return
    document = {
        "message": {
            "message": words.partition("\n")[0],
            "extraInfo": {"py_callstack": words + "\n", "timestamp": str(int(when))},
        }
    }
    with contextlib.suppress(OSError), path.open("x") as stream:
        json.dump(document, stream)
