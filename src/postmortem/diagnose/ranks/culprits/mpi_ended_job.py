"""A rank called MPI_Abort, or MPI found an error in one of its calls: all ranks end.

What it means
    MPI_Abort ends every process of the communicator, and so does an error in a call while the
    error handler is the default one, MPI_ERRORS_ARE_FATAL. The launcher's signals to the other
    ranks are the consequence.
How to be sure
    The library's own notice names the rank: "invoked on rank 3", "reported by process",
    "Abort(…) on node 3".
What to do
    For MPI_Abort, read what that rank wrote before it. For an error, look at the call that it
    names and at its counterpart on the other rank.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import Crashed
from postmortem.diagnose.ranks.phrases import cite, how_sure, ranks_words
from postmortem.diagnose.rule import Finding, Findings, rule
from postmortem.knowledge.messages import MPI_ENDS

_ABORT = "MPI_Abort"


@rule("https://www.mpi-forum.org/docs/mpi-4.1/mpi41-report.pdf")
def mpi_ended_job(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, Crashed) or not blame.first:
        return
    party = blame.first[0]
    if party.failure is None or not party.failure.match(*MPI_ENDS):
        return
    said = party.failure.said
    aborted = said.exception == _ABORT
    who = ranks_words(blame.first)
    words = f"called MPI_Abort: {said.message}" if aborted else f"had {said.words}"
    yield Finding(
        lead=who,
        title=f"{who} {words}",
        verdict=clip(f"{who} {words}", 240),
        cause=(f"{who} called {_ABORT}" if aborted else clip(f"{who} {words}", 400))
        + "; MPI ended the job.",
        confidence=how_sure(blame),
        next_steps=_steps(aborted=aborted, truncated=said.match("mpi-truncated") is not None),
        evidence=cite(blame),
    )


def _steps(*, aborted: bool, truncated: bool) -> tuple[str, ...]:
    if aborted:
        return (
            "read what that rank wrote before it: the program, or mpi4py after an exception, "
            "called MPI_Abort on purpose",
            "standard error of all ranks is there? mpirun --output-filename DIR, srun --error=%t",
        )
    steps = [
        "MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) lets the program say where; a "
        "core of abort() in a handler of its own shows the stack"
    ]
    if truncated:
        steps.insert(
            0,
            "the message is longer than the buffer: compare count, datatype and tag of this "
            "receive with the send that matches it",
        )
    return tuple(steps)
