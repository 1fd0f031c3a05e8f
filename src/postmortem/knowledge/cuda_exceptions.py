"""What the exceptions of CUDA kernels mean."""

from functools import lru_cache

from postmortem.knowledge.lookup import lines_of, load_table
from postmortem.records import record

REFERENCE = "https://docs.nvidia.com/cuda/cuda-gdb/index.html#gpu-error-reporting"


@record
class CudaException:
    """What one number means."""

    code: int
    name: str
    """``"WARP_ILLEGAL_ADDRESS"``."""
    words: str
    """What goes behind "the kernel failed with": ``"an illegal address"``."""
    exact: str
    """``"lane"``, ``"warp"``, ``"cluster"`` or ``"device"``: who is known to have done it."""
    kind: str
    logs: str
    """What CUDA calls it in the process; empty where that is not documented."""
    cause: str
    next_steps: tuple[str, ...]


def cuda_exception(code: int) -> CudaException:
    """Return what a number means; one that the table lacks is told by its number."""
    return exceptions().get(code) or CudaException(
        code,
        f"exception {code}",
        f"exception {code}, which is not known here",
        "warp",
        "unknown",
        "",
        "The driver is newer than the table of exceptions here.",
        ("look the number up in cudadebugger.h of the driver's CUDA version",),
    )


@lru_cache(maxsize=1)
def exceptions() -> dict[int, CudaException]:
    """Return all that are known, by number."""
    found: dict[int, CudaException] = {}
    for kind in load_table("cuda_exceptions.toml")["kind"]:
        steps = tuple(kind[key] for key in ("step", "then") if key in kind)
        for line in lines_of(kind["exceptions"]):
            code, exact, name, said = line.split(" ", 3)
            words, _, logs = said.partition(" | ")
            found[int(code)] = CudaException(
                int(code), name, words, exact, kind["id"], logs, kind["cause"], steps
            )
    return found
