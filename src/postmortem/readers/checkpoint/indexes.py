"""The index of a checkpoint in shards, as Hugging Face's libraries write: which file holds what."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.readers.regular import read_regular, unread
from postmortem.text import some

SUFFIX = ".index.json"
_MOST_BYTES = 256 << 20
_HELD_SUFFIX = ".safetensors"
"""Of tied weights a pickle is followed to the first name only."""


def shards(index: str) -> list[Path]:
    """Return the files that an index names; raises EvidenceError if it is none."""
    files = sorted(set(_weight_map(index).values()))
    # A name of the index that leads out of its folder is not followed.
    return [Path(index).parent / file for file in files if Path(file).name == file]


def missing_shards(index: str) -> Iterator[Problem]:
    """Yield what files of those that an index names are not there."""
    try:
        missing = [shard.name for shard in shards(index) if not shard.exists()]
    except EvidenceError as error:
        yield Problem(error.where, error.what)
        return
    if missing:
        is_one = len(missing) == 1
        words = "a file that is not there" if is_one else f"{len(missing)} files that are not there"
        what = f"names {words}: {some(missing, 3)}"
        yield Problem(index, what, "the checkpoint is not whole: copy or write it again")


def missing_tensors(held: Mapping[Path, frozenset[str]]) -> Iterator[Problem]:
    """Yield what indexes beside files say is in them, and is not.

    `held` has the tensors of each file that was read without a problem.
    """
    for folder in sorted({path.parent for path in held}):
        for index in sorted(folder.glob(f"*{SUFFIX}")):
            yield from _missing_tensors(str(index), folder, held)


def _missing_tensors(
    index: str, folder: Path, held: Mapping[Path, frozenset[str]]
) -> Iterator[Problem]:
    try:
        weights = _weight_map(index)
    except EvidenceError:
        return  # which is told where the index is asked for
    lost: dict[str, list[str]] = {}
    for name, file in weights.items():
        there = held.get(folder / file) if file.endswith(_HELD_SUFFIX) else None
        if there is not None and name not in there:
            lost.setdefault(file, []).append(name)
    for file, names in sorted(lost.items()):
        what = f"says that {some(names, 3)} stand in {file}, where they do not"
        if len(names) == 1:
            what = f"says that {names[0]} stands in {file}, where it does not"
        yield Problem(index, what, "index and shards are not of one save: copy both again")


def _weight_map(index: str) -> dict[str, str]:
    try:
        text = read_regular(index, most=_MOST_BYTES)
        weights = json.loads(text)["weight_map"]
        return {str(name): str(file) for name, file in weights.items()}
    except OSError as error:
        raise EvidenceError(index, unread(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise EvidenceError(index, "is not an index of shards: it has no weight_map") from None
