"""Measures what masking finds and what it hides for nothing: bench/masking.py [--rules FILE].

Made-up credentials of all kinds that are known go into real programs: into the environment, the
command line and an exception of a process of which gdb writes a core, and at which `hang` and
`watch` look; into the command line, a payload and a path of a program that strace records; into the
exceptions of a job's log in ten forms; into a job that `run` watches, and a folder for `triage`.
Each command reports on it twice, masked and not, as text, JSON and HTML. A credential that the
second report shows and the first one does not was masked; eight characters of it side by side,
which two of its kind do not share, are a leak. Harmless lines are those of the corpus, of installed
packages, and names that look random.

With --rules, texts made of the expressions of a gitleaks configuration are masked too: a list that
is not ours. --source DIR measures another version's `src`.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from machine import machine  # noqa: E402
from regex_samples import of_rules  # noqa: E402

from builders.fake_secrets import Fake, fakes, leaked  # noqa: E402

Seen = dict[str, dict[str, list[str]]]
"""Command and place → "shown" and "told": kinds that the report shows, and that it tells."""

_CRASH = """
import os, sys, time
def work(texts):
    raise RuntimeError("refused: " + " and ".join(texts))
try:
    work(open(sys.argv[1]).read().split("\\n"))
except RuntimeError:
    print("ready", flush=True)
    time.sleep(600)
"""
_RAISE = """
import os, sys
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it says itself is no report of ours
texts = open(sys.argv[1]).read().split("\\n")
raise RuntimeError("refused: " + " and ".join(texts))
"""
_CALLS = """
import os, subprocess, sys
texts = open(sys.argv[1]).read().split("\\n")
first, second = map(int, sys.argv[2:])
for text in texts[:first]:
    subprocess.run(["/bin/sh", "-c", ": " + text.replace("'", "") + "; exit 3"])
for text in texts[first:second]:
    os.write(2, ("said:\\n" + text + "\\n").encode())
for text in texts[second:]:
    try:
        os.open("/nonexistent/" + text, 0)
    except OSError:
        pass
sys.exit(3)
"""
_MASK = """
import json, sys
from postmortem.report.redact import Redactor
json.dump([Redactor().text(text) for text in json.load(sys.stdin)], sys.stdout)
"""
FORMS = {
    "bare": "{}",
    "quoted": 'got "{}"',
    "assigned": "TOKEN={}",
    "JSON": '{{"value": "{}"}}',
    "behind an escape": "b'\\x00{}\\n'",
    "escaped twice": '\\\\"{}\\\\"',
    "cut at the end": "x" * 170 + " {}",
    "cut at the front": "{} " + "x" * 400,
    "in an address": "https://h/p?next=%2F&v={}",
    "in a list": "['run', '{}']",
}

OTHERS = {fake.kind: fake.secret for fake in fakes(1)}
"""One more credential of each kind: what it shares with all of them is no secret."""


class Bench:
    """One version's command, and what it was seen to show."""

    def __init__(self, source: Path, folder: Path) -> None:
        """Take the `src` of a version and a folder to work in."""
        self.folder = folder
        self.env = {**os.environ, "PYTHONPATH": str(source)}
        self.rows: Seen = defaultdict(lambda: {"shown": [], "told": []})

    def ask(self, *words: str, exports: tuple[str, ...] = ()) -> str:
        """Return all that a command writes, as text and as JSON, and into files."""
        said = ""
        for form in (["-v", "--html", "report.html"], ["--json"]):
            said += self.call(*words, *form)
        return said + self.written("report.html", *exports)

    def call(self, *words: str) -> str:
        """Return what a command line writes to its terminal."""
        command = [sys.executable, "-m", "postmortem", *words]
        ran = subprocess.run(command, env=self.env, capture_output=True, cwd=self.folder)
        return (ran.stdout + ran.stderr).decode("utf-8", "replace")

    def written(self, *names: str) -> str:
        """Return what stands in files and folders, and remove them."""
        said = ""
        for name in names:
            path = self.folder / name
            parts = sorted(path.rglob("*")) if path.is_dir() else [path]
            for part in parts:
                if part.is_file():
                    said += part.read_bytes().decode("utf-8", "replace")
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return said

    def judge(self, given: dict[str, list[Fake]], words: list[str], *exports: str) -> None:
        """Report twice, and take down what was shown of each place, and what was told."""
        masked = self.ask(*words, exports=exports)
        self.compare(given, masked, self.ask(*words, "--no-redact", exports=exports))

    def compare(self, given: dict[str, list[Fake]], masked: str, plain: str) -> None:
        """Take down what one report shows and another tells."""
        for place, some in given.items():
            for fake in some:
                if leaked(fake.secret, plain, other=OTHERS[fake.kind]):
                    self.rows[place]["shown"].append(fake.kind)
                    if leaked(fake.secret, masked, other=OTHERS[fake.kind]):
                        self.rows[place]["told"].append(fake.kind)


def cores(bench: Bench, seeds: Iterator[int]) -> None:
    """Write cores of processes that were started with credentials."""
    for group in _groups(list(fakes(next(seeds))), 45):
        core, given = bench.folder / "core", bench.folder / "texts"
        chance = next(seeds)
        in_env, in_argv = _like(group, chance + 1), _like(group, chance + 2)
        given.write_text("\n".join(fake.text for fake in group))
        env = {f"SETTING_{i}": fake.text for i, fake in enumerate(in_env)}
        command = [sys.executable, "-c", _CRASH, str(given), *(fake.text for fake in in_argv)]
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        parts = {"environment": in_env, "argv": in_argv, "exception": group}
        asked = {"hang": ["hang", str(process.pid)], "watch": ["watch", "--for", "0.2"]}
        asked["watch"].append(str(process.pid))
        for name, words in asked.items():
            bench.judge({f"{name}: {part}": some for part, some in parts.items()}, words)
        steps = ("-ex", f"generate-core-file {core}", "-p", str(process.pid))
        subprocess.run(["gdb", "-nx", "-batch", *steps], capture_output=True, check=True)
        process.kill()
        process.wait()
        for engine in ("native", "gdb"):
            places = {f"core, {engine}: {part}": some for part, some in parts.items()}
            bench.judge(places, ["core", str(core), "--engine", engine])
        core.unlink()


def jobs(bench: Bench, seeds: Iterator[int]) -> None:
    """Run programs that raise with credentials in what they are given, and keep their evidence."""
    for group in _groups(list(fakes(next(seeds))), 45):
        given, kept = bench.folder / "texts", bench.folder / "kept"
        chance = next(seeds)
        in_env, in_argv = _like(group, chance + 1), _like(group, chance + 2)
        given.write_text("\n".join(fake.text for fake in group))
        env = {f"SETTING_{i}": fake.text for i, fake in enumerate(in_env)}
        command = [sys.executable, "-c", _RAISE, str(given), *(fake.text for fake in in_argv)]
        parts = {"environment": in_env, "argv": in_argv, "exception": group}
        before, bench.env = bench.env, {**bench.env, **env}
        said = {}
        for option in ((), ("--no-redact",)):
            kept.mkdir()
            text = bench.call("run", "--into", str(kept), *option, "--", *command)
            said[option] = text + bench.written("kept")
        bench.env = before
        bench.compare({f"run: {p}": some for p, some in parts.items()}, said[()], said[option])
        job = bench.folder / "job"
        job.mkdir()
        for rank, fake in enumerate(group):
            (job / f"rank{rank}.log").write_text(_raised(rank, "{}", fake))
        bench.judge({"triage: logs": group}, ["triage", str(job)])
        shutil.rmtree(job)


def recordings(bench: Bench, seeds: Iterator[int]) -> None:
    """Record programs that use credentials, and export the recordings."""
    for size in ("256", "32"):
        for group in _groups(list(fakes(next(seeds))), 60):
            log, given = bench.folder / "strace.txt", bench.folder / "texts"
            places = [_like(group, next(seeds)) for _ in range(3)]
            places[2] = [fake for fake in places[2] if "/" not in fake.text]  # a name of a file
            given.write_text("\n".join(fake.text for some in places for fake in some))
            borders = (str(len(places[0])), str(len(places[0]) + len(places[1])))
            calls = "trace=execve,write,openat,open,exit_group,clone,vfork,fork"
            head = ["strace", "-f", "-s", size, "-e", calls, "-o", str(log)]
            program = [sys.executable, "-c", _CALLS, str(given), *borders]
            subprocess.run([*head, *program], capture_output=True)
            exports = ("calls.ndjson", "trace.json", "stacks.txt")
            options = ["--calls", exports[0], "--trace", exports[1], "--folded", exports[2]]
            finds = ["--find", "ENOENT", "--find", "syscall=write fd=2", "--find", "execve"]
            for ask in (["strace", str(log), *options], ["strace", str(log), *finds]):
                files = exports if "--calls" in ask else ()
                names = (f"strace -s {size}: {place}" for place in ("argv", "payload", "path"))
                bench.judge(dict(zip(names, places, strict=True)), ask, *files)


def logs(bench: Bench, seeds: Iterator[int]) -> None:
    """Write logs of ranks that raise exceptions with credentials in them."""
    for form, template in FORMS.items():
        for group in _groups(list(fakes(next(seeds))), 60):
            log = bench.folder / "job.out"
            said = [_raised(rank, template, fake) for rank, fake in enumerate(group)]
            log.write_text("".join(said))
            bench.judge({f"logs: {form}": group}, ["logs", str(log)])
            if form in ("bare", "behind an escape"):
                words = ["logs", str(log), "--split", "by-rank"]
                bench.judge({f"logs --split: {form}": group}, words, "by-rank")


def _raised(rank: int, template: str, fake: Fake) -> str:
    head = f"[rank{rank}]: 2025-11-22 10:00:00 "
    lines = [
        "Traceback (most recent call last):",
        f'  File "train.py", line {rank + 1}, in main',
        "    step()",
        "RuntimeError: " + template.format(fake.text),
    ]
    return "".join(f"{head}{line}\n" for line in lines)


def _groups(items: list[Fake], size: int) -> Iterator[list[Fake]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]


def _like(group: list[Fake], seed: int) -> list[Fake]:
    """Return other credentials of the same kinds."""
    kinds = {fake.kind for fake in group}
    return [fake for fake in fakes(seed) if fake.kind in kinds]


# --- harmless lines


def harmless(chance: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Yield (where from, line) of lines without a secret, `count` of each origin."""
    stdlib, packages = sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"]
    origins = {
        "the corpus": (HERE.parent / "corpus").rglob("*"),
        "Python's library": Path(stdlib).rglob("*.py"),
        "installed packages": Path(packages).rglob("*"),
    }
    for origin, paths in origins.items():
        suffixes = {".py", ".md", ".rst", ".txt", ".log", ".out", ".err", ".strace", ""}
        names = {"RECORD", "METADATA"}
        every = origin == "the corpus"
        files = [p for p in sorted(paths) if every or p.suffix in suffixes or p.name in names]
        chance.shuffle(files)
        found: list[str] = []
        for path in files:
            if len(found) >= count * 2:
                break
            if path.is_file() and path.stat().st_size < 1 << 20:
                rows = path.read_text("utf-8", "replace").splitlines()
                if "\0" in "".join(rows[:9]):
                    continue  # a core
                kept = [row for row in rows if len(row.strip()) > 8]
                found += chance.sample(kept, min(len(kept), 50))
        yield from ((origin, line) for line in chance.sample(found, min(count, len(found))))
    yield from (("names that look random", _name(chance)) for _ in range(count))


def _name(chance: random.Random) -> str:
    digits = f"{chance.getrandbits(160):040x}"
    layer = f"model.layers.{chance.randrange(99)}.self_attn.q_proj.weight"
    blob = "".join(chance.choices("abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789+/", k=44))
    return chance.choice(
        (
            f"commit {digits}",
            f"HEAD is now at {digits[:9]} fix the loader",
            f"sha256:{digits}{digits[:24]}",
            f"build ID {digits} of libtorch_cuda.so",
            f"run {uuid.UUID(int=chance.getrandbits(128))} started",
            f"{layer}: torch.Size([4096, 4096]) norm 12.5",
            f"/scratch/ada/run-{digits[:12]}/{layer}.pt",
            f"md5 {digits[:32]}  shard-{chance.randrange(999):05d}.tar",
            f"_ZN2at6native{chance.randrange(40)}{digits[:8]}gemmERKNS_6TensorE+0x{digits[:4]}",
            f"torch-2.13.0+cu130-cp311-{digits[:7]}.whl sha384-{blob}",
            f"tokens/s: {chance.randrange(99999)}, lr {chance.random():.6f}, key 0x{digits[:16]}",
            f"NCCL INFO comm 0x{digits[:12]} rank 3 nranks 64 commId 0x{digits[12:28]} Init",
            f"docker image nvcr.io/nvidia/pytorch@sha256:{digits}{digits[:24]}",
            f"job {digits[:8]}-{digits[8:12]} on node-{digits[:4]}.cluster.local:29500",
        )
    )


def masked(source: Path, texts: list[str]) -> list[str]:
    """Return texts as a version masks them."""
    env = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", _MASK]
    ran = subprocess.run(command, input=json.dumps(texts).encode(), env=env, stdout=-1, check=True)
    made: list[str] = json.loads(ran.stdout)
    return made


def alarms(source: Path, count: int) -> dict[str, Any]:
    """Mask harmless lines; return per origin how many were changed, of how many."""
    given = list(harmless(random.Random(1), count))
    rows: dict[str, dict[str, Any]] = {}
    for (origin, line), shown in zip(given, masked(source, [x for _, x in given]), strict=True):
        row = rows.setdefault(origin, {"lines": 0, "masked": 0})
        row["lines"] += 1
        row["masked"] += shown != line
    return rows


def foreign(source: Path, rules: Path) -> dict[str, Any]:
    """Mask texts made of a scanner's expressions; those that name an identifier count apart."""
    rows: dict[str, Any] = {}
    given = [row for seed in range(3) for row in of_rules(rules, seed)]
    shown = masked(source, [f"said {text} then" for _, text, _ in given])
    for (rule, _, secret), text in zip(given, shown, strict=True):
        public = rule.endswith(("-id", "-public-key"))
        row = rows.setdefault("identifiers" if public else "secrets", {"texts": 0, "told": {}})
        row["texts"] += 1
        if leaked(secret, text):
            row["told"][rule] = row["told"].get(rule, 0) + 1
    return rows


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rules", type=Path, metavar="FILE", help="a gitleaks.toml")
    parser.add_argument("--source", type=Path, default=HERE.parent / "src", metavar="DIR")
    parser.add_argument("--lines", type=int, default=3000, help="of each of four origins")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "masking.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.source.resolve(), Path(folder))
        seeds = iter(range(1000, 100_000, 7))
        for part in (cores, jobs, recordings, logs):
            part(bench, seeds)
    result: dict[str, Any] = {
        "machine": machine(),
        "recall": {},
        "alarms": alarms(args.source, args.lines),
    }
    for place, row in bench.rows.items():
        shown, told = len(row["shown"]), sorted(set(row["told"]))
        result["recall"][place] = {"shown": shown, "masked": shown - len(row["told"]), "told": told}
        print(f"{place:30} {shown - len(row['told']):4} of {shown:4} masked")
    for origin, counts in result["alarms"].items():
        print(f"{origin:30} {counts['masked']:4} of {counts['lines']:4} masked for nothing")
    if args.rules:
        result["rules"] = foreign(args.source, args.rules)
        for kind, counts in result["rules"].items():
            told = sum(counts["told"].values())
            print(f"rules, {kind:23} {counts['texts'] - told:4} of {counts['texts']:4} masked")
    args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
