"""Runs that belong together: repeated until one fails, or once more in another way."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from postmortem.records import replace
from postmortem.run.memory import MemoryLimit
from postmortem.run.once import Finished, complain, run_once
from postmortem.run.options import RunOptions
from postmortem.text import counted

_SYNC: Mapping[str, str] = {"CUDA_LAUNCH_BLOCKING": "1", "TORCH_SHOW_CPP_STACKTRACES": "1"}
_CPU: Mapping[str, str] = {
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "",
    "ZE_AFFINITY_MASK": "",
    "ACCELERATE_USE_CPU": "true",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
}
_NCCL_HANGS = ((2, 14, 3),)
"""Versions that never come out of their first collective with CUDA_LAUNCH_BLOCKING=1
(pytorch#96184)."""


def run_all(options: RunOptions, limit: MemoryLimit | None) -> int:
    """Run the command as often as was asked, say what came of it, and return its status."""
    if options.repeat > 1:
        return _repeated(options, limit)
    again = options.sync or options.cpu
    _make_fresh(options)
    first = run_once(options, keep_files=again, limit=limit)
    _tell(first)
    if not again or not first.outcome.failed or first.outcome.stopped_by is not None:
        return first.outcome.status
    if options.sync:
        _once_more(options, first, limit, "--sync", _SYNC)
    if options.cpu:
        _once_more(options, first, limit, "--cpu", _CPU)
    return first.outcome.status


def _repeated(options: RunOptions, limit: MemoryLimit | None) -> int:
    """Run N times; failures that are the same are one row."""
    status, seen, told, done = 0, Counter[str](), dict[str, Finished](), 0
    for _ in range(options.repeat):
        _make_fresh(options)
        one = run_once(options, keep_files=True, limit=limit)
        done += 1
        if one.outcome.stopped_by is not None and not one.outcome.timed_out:
            status = one.outcome.status
            break
        if not one.outcome.failed:
            continue
        status = status or one.outcome.status
        key = one.signature or f"status {one.outcome.status}"
        seen[key] += 1
        if key not in told:
            told[key] = one
            _tell(one)
        elif one.folder is not None:  # its like is kept already
            _remove(one.folder)
    failed = sum(seen.values())
    noun = "run" if done == 1 else "runs"
    complain(f"{failed} of {done} {noun} failed" + (f", in {len(seen)} ways" if seen else ""))
    for key, count in seen.most_common():
        one = told[key]
        where = f"  ({one.folder})" if one.folder is not None else ""
        complain(f"  {count} of {done} ({count / done:.0%})  {key}  {one.verdict or '?'}{where}")
    return status


def _once_more(
    options: RunOptions,
    first: Finished,
    limit: MemoryLimit | None,
    name: str,
    extra: Mapping[str, str],
) -> None:
    """Run the command again in another way, and hold both runs side by side."""
    left = {key: value for key, value in extra.items() if not _is_set(key, name)}
    complain(f"{name}: running it again with " + " ".join(f"{k}={v}" for k, v in left.items()))
    _make_fresh(options)
    second = run_once(replace(options, strace=None), extra=left, keep_files=True, limit=limit)
    same = second.outcome.failed and second.signature == first.signature
    words = "fails in the same way" if same else _difference(second)
    complain(f"{name}: {words}")
    rows = [
        ("", "as it was run", f"with {name}"),
        ("status", str(first.outcome.status), str(second.outcome.status)),
        ("seconds", _seconds(first), _seconds(second)),
        ("verdict", first.verdict or "-", second.verdict or "-"),
        ("raised at", _place(first), _place(second)),
    ]
    text = "".join(f"{label:<10}  {one}\n{'':<10}  {two}\n" for label, one, two in rows)
    for line in text.splitlines():
        complain(f"  {line}")
    if first.folder is not None and first.folder.is_dir():
        body = f"{text}\n--- as it was run\n" + "\n".join(first.words)
        body += f"\n\n--- with {name}\n" + "\n".join(second.words) + "\n"
        try:
            (first.folder / f"again{name}.txt").write_text(body, errors="replace")
            if second.folder is not None and second.folder.is_dir():
                shutil.move(second.folder, first.folder / f"again{name}")
        except OSError as error:
            complain(f"{name}: the comparison could not be kept: {error.strerror}")


def _difference(second: Finished) -> str:
    if not second.outcome.failed:
        return "does not fail this way"
    return f"fails in another way: {second.verdict or second.outcome.status}"


def _is_set(key: str, name: str) -> bool:
    """Whether the user's own value stands: only what hides GPUs is ours to set over it."""
    return key in os.environ and not (name == "--cpu" and key.endswith("VISIBLE_DEVICES"))


def _seconds(one: Finished) -> str:
    return f"{one.outcome.ended - one.outcome.began:.1f} s"


def _place(one: Finished) -> str:
    """Return where a run raised: the last line of its traceback that names a file."""
    lines = [line.strip() for line in one.words if re.match(r'\s*File ".*", line \d+', line)]
    return lines[-1] if lines else "-"


def refuse_sync() -> str | None:
    """Return why kernels may not be waited for here, if NCCL would hang."""
    version = _nccl_version()
    if version in _NCCL_HANGS:
        text = ".".join(map(str, version or ()))
        return (
            f"--sync: NCCL {text}, which this PyTorch has, hangs in its first collective with "
            "CUDA_LAUNCH_BLOCKING=1; use --cpu, or a PyTorch with another NCCL"
        )
    return None


def _nccl_version() -> tuple[int, ...] | None:
    """Return the version of NCCL that PyTorch here would load, without importing it."""
    import importlib.metadata

    for name in ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13"):
        try:
            text = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
    return None


def _make_fresh(options: RunOptions) -> None:
    """Empty the folder that each run begins with."""
    folder = options.fresh
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _remove(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)


_SHOWN = 30


def _tell(one: Finished) -> None:
    """Write the verdict and the best of the report to standard error."""
    outcome = one.outcome
    if not outcome.failed or one.verdict is None:
        if outcome.failed:
            complain(f"the command ended with status {outcome.status}")
        return
    complain(one.verdict.split("\n", 1)[0])
    rest = one.text.partition("\n\n")[2].rstrip().splitlines()
    for line in rest[:_SHOWN]:
        _write(line)
    if len(rest) > _SHOWN:
        _write(f"  … {counted(len(rest) - _SHOWN, 'more line')}")
    _write("")
    for note in one.notes:
        complain(note)
    if one.folder is not None:
        complain(f"evidence: {one.folder}" + ("/" if one.folder.is_dir() else ""))
    else:
        complain("no place to keep the evidence: neither this folder nor /tmp is writable")


def _write(line: str) -> None:
    import sys

    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return
