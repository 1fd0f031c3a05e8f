"""git bisect with a failure's signature as the question.

git keeps the state: what was interrupted goes on with the same commits, and `git bisect log` and
`reset` are as usual.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.readers.live.status import text_or_none
from postmortem.records import replace
from postmortem.render.safe import block
from postmortem.report.redact import Redactor
from postmortem.run.once import Finished, complain, run_once
from postmortem.run.options import RunOptions

GOOD, BAD, SKIP, STOP = 0, 1, 125, 128
"""What `git bisect run` takes a step's exit status for."""
_STATE = "postmortem-bisect"
"""In git's folder: the signature, for a bisection that is taken up again."""


def step(options: RunOptions, signature: str) -> int:
    """Return what the commit that is checked out is, as `git bisect run` wants it."""
    other = None
    for number in range(options.repeat):
        one = _once(options)
        if one.outcome.stopped_by is not None and not one.outcome.timed_out:
            return STOP
        if not one.outcome.failed:
            continue
        if one.signature == signature:
            complain(f"bisect: bad, the failure came in run {number + 1}: {one.verdict}")
            return BAD
        other = one
    if other is not None:
        complain(f"bisect: skipped, it fails in another way: {other.verdict}")
        return SKIP
    complain(f"bisect: good, {options.repeat} of {options.repeat} runs ended with 0")
    return GOOD


def bisect(options: RunOptions, *, good: str | None, bad: str | None, signature: str | None) -> int:
    """Find the commit, and return 0; 1 if git cannot tell it from commits that were skipped.

    Raises EvidenceError where there is nothing to bisect.
    """
    state = Path(_git("rev-parse", "--git-path", _STATE))
    under_way = Path(_git("rev-parse", "--git-path", "BISECT_LOG")).exists()
    if under_way and good is None and bad is None:
        signature = signature or (text_or_none(str(state)) or "").strip() or None
        if signature is None:
            raise EvidenceError("--signature", "name it: postmortem did not start this git bisect")
    else:
        if under_way:
            raise EvidenceError(
                "git",
                "a bisection is under way",
                hint="leave --good and --bad out; or git bisect reset",
            )
        if good is None:
            raise EvidenceError("--good", "is needed: a commit without the failure")
        if _git("status", "--porcelain", "--untracked-files=no"):
            raise EvidenceError(
                "git", "files have changes that are not committed", hint="git stash"
            )
        first, last = _commit(good), _commit(bad or "HEAD")
        _git("bisect", "start", last, first)
        try:
            signature = _seen(options, last, signature)
            _refuse_known(options, first, signature)
        except BaseException:
            _git("bisect", "reset")
            raise
        state.write_text(signature + "\n")
    command = [sys.executable, "-m", "postmortem", "bisect", "--step", "--signature", signature]
    command += ["--repeat", str(options.repeat)]
    if options.timeout is not None:
        command += ["--timeout", str(options.timeout)]
    run = ["git", "bisect", "run", *command, "--", *options.command]
    code = subprocess.run(run, stdout=subprocess.DEVNULL, check=False).returncode
    return _told(code)


def _told(code: int) -> int:
    """Write what git has found: the commit, or the commits that it may be.

    git's log says it: in what else it writes, subjects of commits and the command may say the same.
    """
    rows = _git("bisect", "log").splitlines()
    found, left = (
        [row.partition("[")[2].partition("]")[0] for row in rows if row.startswith(mark)]
        for mark in ("# first bad commit: [", "# possible first bad commit: [")
    )
    if not found and not left:
        complain("bisect: interrupted; the same command without --good and --bad goes on")
        return code or 1
    if found:
        text = _git("log", "-1", "--no-color", "--no-ext-diff", "--stat=100", found[-1])
        text = f"{found[-1]} is the first bad commit\n{text}"
    else:
        text = "\n".join(("The first bad commit could be any of:", *left))
    print(block(Redactor().text(text)))
    complain("bisect: done; git bisect reset goes back")
    return 0 if found else 1


def _seen(options: RunOptions, bad: str, wanted: str | None) -> str:
    """Return the signature of the failure at the bad commit; raises EvidenceError without it."""
    other = None
    for one in _failures(options, bad):
        if wanted in (None, one.signature) and one.signature is not None:
            complain(f"bisect: looking for {one.signature}: {one.verdict}")
            return one.signature
        other = one
    if other is not None:
        what = f"fails with {other.signature}, not with {wanted}: {other.verdict}"
        raise EvidenceError(bad, what, hint="leave --signature out, or name another --bad")
    raise EvidenceError(bad, f"does not fail in {options.repeat} runs", hint="--repeat N")


def _refuse_known(options: RunOptions, good: str, signature: str) -> None:
    """Raise EvidenceError where the good commit has the failure, too: any answer would be wrong."""
    if any(one.signature == signature for one in _failures(options, good)):
        raise EvidenceError(good, f"fails with {signature}, too", hint="name an older --good")


def _failures(options: RunOptions, commit: str) -> Iterator[Finished]:
    """Yield the failures of a commit; raises EvidenceError where one is stopped from outside."""
    before = _git("rev-parse", "HEAD")
    _git("checkout", "-q", commit)
    try:
        for _ in range(options.repeat):
            one = _once(options)
            if one.outcome.stopped_by is not None and not one.outcome.timed_out:
                raise EvidenceError(commit, "was interrupted")
            if one.outcome.failed:
                yield one
    finally:
        _git("checkout", "-q", before)


def _once(options: RunOptions) -> Finished:
    """Run the command, and keep nothing of it; what it writes is no answer of ours."""
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        return _run(options)
    finally:
        os.dup2(answers, 1)
        os.close(answers)


def _run(options: RunOptions) -> Finished:
    with tempfile.TemporaryDirectory(prefix="postmortem-bisect-") as folder:
        once = replace(options, repeat=1, into=Path(folder))
        return run_once(once, keep_files=True, quiet=True)


def _commit(name: str) -> str:
    try:
        return _git("rev-parse", "--verify", "-q", f"{name}^{{commit}}")
    except EvidenceError:
        raise EvidenceError(name, "is not a commit of this repository") from None


def _git(*words: str) -> str:
    env = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *words], capture_output=True, text=True, errors="replace", env=env, check=False
        )
    except FileNotFoundError:
        raise EvidenceError("git", "is not on PATH") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ends with {done.returncode}"]
        raise EvidenceError(f"git {words[0]}", lines[-1].removeprefix("fatal: "))
    return done.stdout.strip()
