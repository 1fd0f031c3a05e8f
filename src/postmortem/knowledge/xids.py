"""Xid numbers of NVIDIA's driver: names, whose fault they are, how far they reach."""

from functools import lru_cache

from postmortem.facts.kernel_log import Fault
from postmortem.knowledge.lookup import load_table
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


@lru_cache(maxsize=1)
def _table() -> dict[int, Xid]:
    from postmortem.knowledge.messages import family

    known = {signature.id: signature for signature in family("xid")}
    found: dict[int, Xid] = {}
    for row in load_table("xid.toml")["xid"]:
        number, fault = int(row["number"]), Fault(row["fault"])
        # One record speaks for both errors of the GSP.
        signature = known.get(f"xid-{119 if number == 120 else number}")
        steps = {Fault.HARDWARE: _RESET, Fault.PROGRAM: _PROGRAM}.get(fault, _ANY)
        cause = row.get("cause") or (signature.cause if signature else "")
        found[number] = Xid(
            number,
            row["name"],
            fault,
            row["reach"],
            cause,
            signature.next_steps if signature else steps,
        )
    return found
