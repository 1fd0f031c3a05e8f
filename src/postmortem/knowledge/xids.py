"""Xid numbers of NVIDIA's driver: names, whose fault they are, how far they reach."""

from collections.abc import Iterator
from functools import lru_cache

from postmortem.facts.kernel_log import Fault
from postmortem.knowledge.lookup import lines_of, load_table
from postmortem.records import record

REFERENCE = "https://docs.nvidia.com/deploy/xid-errors/index.html"
_RESET = (
    "take the node out and reset the GPU: nvidia-smi --gpu-reset -i GPU",
    "if it happens again, run nvidia-bug-report.sh and have the GPU serviced",
)
_PROGRAM = ("run the program under compute-sanitizer",)
_ANY = ("look the number up at docs.nvidia.com/deploy/xid-errors",)


@record
class Xid:
    """What one number means."""

    number: int
    name: str
    fault: Fault
    reach: str
    """``"process"``, ``"gpu"``, ``"link"`` or ``"host"``: who else is hit."""
    cause: str
    next_steps: tuple[str, ...]


def xid(number: int) -> Xid:
    """Return what a number means; one that the table lacks is of nobody's fault yet."""
    return _table().get(number) or Xid(
        number, "an error of the GPU", Fault.UNKNOWN, "gpu", "The number is not known here.", _ANY
    )


def rows() -> Iterator[tuple[int, str, str, Fault, str]]:
    """Yield number, name, cause, fault and reach; no cause where a message has it."""
    for row in load_table("xid.toml")["xid"]:
        for line in lines_of(row["lines"]):
            numbers, name, *cause = line.split(": ", 2)
            for number in map(int, numbers.split()):
                yield number, name, "".join(cause), Fault(row["fault"]), row["reach"]


@lru_cache(maxsize=1)
def _table() -> dict[int, Xid]:
    from postmortem.knowledge.messages import family

    known = {signature.id: signature for signature in family("xid")}
    found: dict[int, Xid] = {}
    for number, name, cause, fault, reach in rows():
        # One record speaks for both errors of the GSP.
        signature = known.get(f"xid-{119 if number == 120 else number}")
        steps = {Fault.HARDWARE: _RESET, Fault.PROGRAM: _PROGRAM}.get(fault, _ANY)
        if signature:
            cause, steps = cause or signature.cause, signature.next_steps
        found[number] = Xid(number, name, fault, reach, cause, steps)
    return found
