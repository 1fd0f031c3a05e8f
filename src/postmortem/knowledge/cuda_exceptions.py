"""What the exceptions of CUDA kernels mean."""

from functools import lru_cache

from postmortem.knowledge.lookup import load_table
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
    table = load_table("cuda_exceptions.toml")
    kinds = {row["id"]: row for row in table["kind"]}
    return {
        int(row["code"]): CudaException(
            int(row["code"]),
            row["name"],
            row["words"],
            row["exact"],
            row["kind"],
            row.get("logs", ""),
            kinds[row["kind"]]["cause"],
            tuple(kinds[row["kind"]][key] for key in ("step", "then") if key in kinds[row["kind"]]),
        )
        for row in table["exception"]
    }
