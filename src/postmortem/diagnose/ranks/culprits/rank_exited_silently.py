"""A rank exited with an error code, and no line that names it is an error.

What it means
    Somebody called os._exit() or sys.exit() with a code, or its message went elsewhere.
How to be sure
    The launcher gives its exit code, and no line that names the rank is an error.
What to do
    Look for its output elsewhere (standard output, a file of its own), and for sys.exit in
    the program.
"""

from collections.abc import Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import ExitedSilently
from postmortem.diagnose.ranks.phrases import cite, ranks_words, torchrun_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.exits import LogExit
from postmortem.facts.last_lines import LastLine
from postmortem.knowledge.messages import explained
from postmortem.knowledge.messages import told as told_of
from postmortem.text import shell_word, without_folders

_OF_ALL = "give the output of each rank, standard output too"
_EACH = {
    "torchrun": "torchrun --log-dir DIR --tee 3",
    "srun": "srun --label --output=DIR/%t.log",
    "mpirun": "mpirun --tag-output (Open MPI)",
    "mpiexec": "mpiexec -prepend-rank (MPICH)",
    "deepspeed": "deepspeed --enable_each_rank_log DIR",
}
"""How a launcher is told to keep the output of ranks apart."""
READ_CITED = "read the lines that are cited: they stand right above its end"
EXITS = "search the program for os._exit and sys.exit"
_KILLED = "on its host: dmesg -T | grep -i 'killed process'"
_OF_ACTORS = {
    "ray": ("Ray", f"{_KILLED}, and what /tmp/ray/session_latest/logs has of its pid"),
    "vLLM": ("vLLM", _KILLED),
    "Jupyter": (
        "Jupyter",
        "dmesg -T | grep -i -E 'killed process|out of memory': a kernel that dies without a word "
        "has most often used up the memory",
    ),
}


def above_step(end: LogExit) -> str:
    """Return where to look for an error whose lines name no rank."""
    name = end.file.rpartition("/")[2]
    return f"read what stands above {name}:{end.line}: lines that name no rank may be its own"


def just_above(lines: Sequence[LastLine]) -> str:
    """Return what the lines above a launcher's word say first."""
    return f"; just above: {without_folders(lines[0].text)}"


def outputs_step(end: LogExit | None) -> str:
    """Return how to have the output of each rank, by its launcher where that has a way."""
    way = _EACH.get(end.launcher) if end is not None else _EACH["torchrun"]
    return f"{_OF_ALL}: {way}" if way else _OF_ALL


@rule("https://pytorch.org/docs/stable/elastic/errors.html")
def rank_exited_silently(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, ExitedSilently) or not blame.first:
        return
    who = ranks_words(blame.first)
    end = blame.first[0].exit
    one = len(blame.first) == 1
    how = f"ended with a code of {'its' if one else 'their'} own"
    steps: tuple[str, ...] = (outputs_step(end), EXITS)
    if end is not None and end.launcher in _OF_ACTORS:
        name, step = _OF_ACTORS[end.launcher]
        how, steps = f"died, and {name} does not know how (a signal, a code)", (step, EXITS)
    heard = blame.cause.heard
    above = next((one.exit.above for one in blame.first if one.exit and one.exit.above), ())
    told = ", and wrote no error" if heard else "; no line that names it is an error"
    if heard and blame.cause.said:
        told = f"; all it wrote ends with: {clip(blame.cause.said, 160)}"
    no_error, elsewhere = "and no line that names it is an error", "may be in another file"
    if blame.cause.error:
        last = "its last words" if one else "last words of theirs"
        told = f"; {last}: {clip(blame.cause.said, 160)}"
        no_error, elsewhere = f"and {last} read like the reason", "may have more"
        steps = steps[:1]
    if not heard:
        elsewhere = "may stand among lines that name no rank, or in another file"
        if end is not None:
            steps = (above_step(end), *steps)
    if above:
        told = just_above(above)
        elsewhere = "may be in the lines right above its end, which name nobody"
        steps = (READ_CITED, *steps[1:])
    if end is not None and end.output is not None:
        output = clip(end.output, 120)
        told, elsewhere = (
            f"; what it wrote is in {output}",
            f"is in {output}, as {end.launcher} says",
        )
        steps = (f"postmortem logs {shell_word(output)}  on the host of that rank", EXITS)
    written = "standard error" if heard else f"what {'it' if one else 'they'} wrote"
    means = f"; {written} {elsewhere}."
    if blame.cause.known and not (above or (end is not None and end.output)):
        known = told_of(blame.cause.known, blame.cause.said) or explained(blame.cause.known)
        means, steps = f". {known.cause}", (*known.next_steps, *steps)
    yield Finding(
        lead=who,
        title=f"{who} {blame.first[0].why}{told}",
        cause=f"{who} {how}, {no_error}{means}{torchrun_words(blame)}",
        confidence=Confidence.LIKELY if one else Confidence.POSSIBLE,
        next_steps=steps,
        evidence=cite(blame, above),
    )
