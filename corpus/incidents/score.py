"""Scores `postmortem triage` on recorded incidents: ``python -m corpus.incidents.score``.

Each is several kinds of evidence of one run (make.py); truth.json says who is to blame, what the
verdict must and must not say, and what is of another job. Exits with 1 where an answer is wrong and
certain, or fewer than 90 % are right.
"""

import argparse
import json
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ENOUGH = 0.9


def unpack(name: str, truth: Mapping[str, Any], folder: Path) -> Path:
    """Lay the evidence of an incident into a folder and return that."""
    target = folder / name
    target.mkdir()
    _extract(str(truth.get("of", name)), target)
    for new, old in truth.get("also", {}).items():
        other, _, file = old.partition("/")
        with tempfile.TemporaryDirectory() as scratch:
            _extract(other, Path(scratch))
            (Path(scratch) / file).rename(target / new)
    return target


def _extract(name: str, target: Path) -> None:
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(HERE / "runs" / f"{name}.tar.xz") as tar:
        for member in tar:
            _, _, member.name = member.name.partition("/")
            if member.name:
                tar.extract(member, target, **safe)


def faults(truth: Mapping[str, Any], found: Mapping[str, Any], code: int) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if found["outcome"] not in truth["outcome"].split("|"):
        yield f"outcome {found['outcome']}"
    if "code" in truth and code != truth["code"]:
        yield f"exit code {code}"
    roots = sorted(tuple(row["ranks"]) for row in found["roots"])
    open_ = truth.get("roots_any") or (truth.get("undecided") and not roots)
    if not open_ and roots != sorted(map(tuple, truth["roots"])):
        yield f"roots {roots}"
    if "types" in truth and sorted({r["type"] for r in found["roots"]}) != truth["types"]:
        yield f"types {[r['type'] for r in found['roots']]}"
    verdict = found["verdict"].lower()
    yield from (f"does not say {w!r}" for w in truth.get("says", ()) if w.lower() not in verdict)
    yield from (f"says {w!r}" for w in truth.get("lacks", ()) if w.lower() in verdict)
    explained = {step["type"] for step in found["chain"] if step["explained_by"]}
    yield from (f"{t!r} is not explained" for t in truth.get("explained", ()) if t not in explained)
    runs = {Path(row["name"]).name: row["outcome"] for row in found["runs"]}
    if runs != truth.get("runs", {}):
        yield f"runs {runs}"
    if "restart" in truth and (found["restart"] or {}).get("advice") != truth["restart"]:
        yield f"restart {found['restart']}"
    for row in found["evidence"]:
        if Path(row["path"]).name in truth.get("foreign", ()) and row["belongs"] is not False:
            yield f"{row['path']} is taken for this job's"


def main() -> int:
    """Score all incidents, or those that are named."""
    from postmortem.cli.main import main as command

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="incidents (default: all)")
    args = parser.parse_args()
    truths: dict[str, dict[str, Any]] = json.loads((HERE / "truth.json").read_text())
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for name, truth in truths.items():
            if args.names and name not in args.names:
                continue
            folder = unpack(name, truth, Path(scratch))
            out = Path(scratch) / f"{name}.json"
            code = command(["triage", str(folder), "--json", "-o", str(out)])
            found = json.loads(out.read_text())
            wrong = list(faults(truth, found, code))
            sure = any(r["confidence"] == "certain" for r in found["roots"])
            judged = "right" if not wrong else "wrong and certain" if sure else "wrong"
            counts[judged] += 1
            print(f"{' ' if not wrong else '*'} {name:22} {found['verdict'][:150]}")
            for one in wrong:
                print(f"      {one}")
    print(f"\n{dict(counts)}")
    total = sum(counts.values())
    return int(counts["wrong and certain"] > 0 or counts["right"] < ENOUGH * total)


if __name__ == "__main__":
    sys.exit(main())
