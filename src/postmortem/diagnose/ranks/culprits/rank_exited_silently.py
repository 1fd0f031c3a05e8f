"""A rank exited with an error code, and no error of it is in the logs."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import ExitedSilently
from postmortem.diagnose.ranks.phrases import cite, ranks_words, torchrun_words, victims_words
from postmortem.diagnose.rule import Finding, rule
from postmortem.report.model import Confidence, Role

_STEPS = (
    "give the logs of all ranks, standard output too: torchrun --log-dir DIR --tee 3",
    "search the program for os._exit and sys.exit",
)
_OF_RAY = (
    "on its host: dmesg -T | grep -i 'killed process', and what /tmp/ray/session_latest/logs has "
    "of its pid"
)


@rule(role=Role.ROOT, references=("https://pytorch.org/docs/stable/elastic/errors.html",))
def rank_exited_silently(blame: Attribution) -> Iterator[Finding]:
    """A rank exited with an error code, and no error of it is in the logs.

    What it means
        Somebody called os._exit() or sys.exit() with a code, or its message went elsewhere.
    How to be sure
        The launcher gives its exit code, and no file has an error of it.
    What to do
        Look for its output elsewhere (standard output, a file of its own), and for sys.exit in
        the program.
    """
    if not isinstance(blame.cause, ExitedSilently) or not blame.first:
        return
    who = ranks_words(blame.first)
    end = blame.first[0].exit
    how, steps = "ended with a code of its own", _STEPS
    if end is not None and end.launcher == "ray":
        how, steps = "died, and Ray does not know how (a signal, a code)", (_OF_RAY, *_STEPS[1:])
    heard = blame.cause.heard
    near = blame.cause.near
    told = ", and wrote no error" if heard else "; no error of it is in these logs"
    no_error, elsewhere = "and no log has an error of it", "may be in a file that was not given"
    if near:
        told, no_error = f"; just above: {near}", "and no line that names it is an error"
        elsewhere = "may be in the lines right above its end, which name nobody"
        steps = ("read the lines that are cited: they stand right above its end", *steps[1:])
    yield Finding(
        lead=who,
        title=clip(f"{who} {blame.first[0].why}{told}", 100),
        cause=f"{who} {how}, {no_error}; "
        + ("standard error" if heard else "what it wrote")
        + f" {elsewhere}.{victims_words(blame)}{torchrun_words(blame)}",
        confidence=Confidence.LIKELY if len(blame.first) == 1 else Confidence.POSSIBLE,
        next_steps=steps,
        evidence=cite(blame),
    )
