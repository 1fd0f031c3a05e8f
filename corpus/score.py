"""Scores `postmortem logs` on the recorded runs of corpus/ranks: ``python -m corpus.score``.

Prints for each run the true rank, the answer, and what torchrun's own line says; then how many
are right, wrong and undecided. ``--world-size`` gives the number of ranks to the command, as a user
may. Exits with 1 where an answer is wrong, or fewer than 95 % of the decidable ones are right.
"""

import argparse
import json
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from postmortem import thresholds

RUNS = Path(__file__).resolve().parent / "ranks"
ENOUGH = 0.95


def unpack(name: str, folder: Path) -> Path:
    """Unpack the evidence of a run into a folder of its own and return that."""
    target = folder / name
    with tarfile.open(RUNS / "runs" / f"{name}.tar.xz") as tar:
        # Our own files; Python before 3.11.4 has no filters.
        tar.extractall(target, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return target


def judged(truth: dict[str, Any], found: dict[str, Any] | None, *, failed: bool) -> str:
    """Return right, wrong or undecided."""
    true, first = truth["ranks"], found["ranks"] if found else []
    if truth.get("label"):  # of a launcher that knows hosts and no ranks
        if found is None:
            return "undecided"
        return "right" if found["label"] == truth["label"] else "wrong"
    if not true:
        if first:
            return "wrong"
        return "wrong" if failed and truth["fault"] == "none" else "right"
    if not first:
        return "right" if truth.get("undecidable") else "undecided"
    return "right" if sorted(first) == true else "wrong"


def answer(name: str, truth: dict[str, Any], folder: Path, *, size: bool) -> tuple[str, str, str]:
    """Return how the answer is judged, the answer, and what torchrun says."""
    from postmortem.analyses.ranklogs import RankLogOptions, analyse

    options = RankLogOptions(world_size=truth["world_size"] if size else None)
    report = analyse([str(unpack(name, folder))], options)
    body: Any = report.body
    found = body["first_failure"]
    first = (found["ranks"] or [found["label"]]) if found else []
    verdict = judged(truth, found, failed=report.failed)
    said = f"{first} {body['decided_by']}" + (f" ({found['confidence']})" if found else "")
    return verdict, said, str(body["launcher_blames"])


def main() -> int:
    """Score all runs, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="runs (default: all)")
    parser.add_argument("--world-size", action="store_true", help="give the number of ranks")
    parser.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value of postmortem.thresholds",
    )
    args = parser.parse_args()
    for word in args.threshold:
        name, _, value = word.partition("=")
        setattr(thresholds, name, type(getattr(thresholds, name))(value))
    truths: dict[str, dict[str, Any]] = json.loads((RUNS / "truth.json").read_text())
    counts: Counter[str] = Counter()
    single: Counter[str] = Counter()
    theirs: Counter[bool] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, truth in truths.items():
            if args.names and name not in args.names:
                continue
            verdict, said, blamed = answer(name, truth, Path(folder), size=args.world_size)
            counts[verdict] += 1
            if len(truth["ranks"]) == 1:
                theirs[blamed == str(truth["ranks"])] += 1
                if not truth.get("undecidable"):
                    single[verdict] += 1
            mark = " " if verdict == "right" else "*"
            print(f"{mark} {name:26} {truth['ranks']!s:14} {verdict:10} {said}; torchrun {blamed}")
    print(f"\nall runs: {dict(counts)}")
    total = sum(single.values())
    print(f"one culprit, decidable: {single['right']} of {total} right")
    print(f"one culprit: torchrun's own line is right in {theirs[True]} of {sum(theirs.values())}")
    return int(counts["wrong"] > 0 or (total > 0 and single["right"] < ENOUGH * total))


if __name__ == "__main__":
    sys.exit(main())
