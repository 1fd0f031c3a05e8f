"""Ranks over gloo that meet at a breakpoint: ranks.py KIND SECONDS.

SECONDS is the time-out of the process group. Each rank says where it is; a rank that ends well says
"over".
"""

import os
import sys
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

from postmortem import breakpoint_on_rank, printflock

KIND, SECONDS = sys.argv[1], float(sys.argv[2])


def stop(rank: int) -> None:
    secret = 41 + rank
    if KIND == "set":
        breakpoint_on_rank({1, 2})
    elif KIND == "when":
        for step in range(200):
            breakpoint_on_rank(1, when=lambda: step == 150)
    else:
        breakpoint_on_rank(1, debugger=None if KIND == "collective" else os.environ.get("DEBUGGER"))
    secret += 1
    if KIND in ("collective", "long"):
        total = torch.ones(1)
        if KIND == "collective":
            dist.all_reduce(total)
        else:
            dist.group.WORLD.allreduce([total]).wait()  # past the functions that we know
        secret += int(total)
    printflock("secret", secret)


def absent(rank: int) -> None:
    if rank == 3:
        printflock("elsewhere")
        time.sleep(1)
    else:
        breakpoint_on_rank(1)
    printflock("went on")


def never(rank: int) -> None:
    if rank != 1:
        breakpoint_on_rank(1, patience=2)
    printflock("went on")


def raising(rank: int) -> None:
    with breakpoint_on_rank(1, on_exception=True):
        culprit = rank * 1000
        if rank == 1:
            raise KeyError(culprit)
        dist.barrier() if KIND == "raising-collective" else None


def main() -> None:
    where = {}
    if "STORE" in os.environ:  # mpirun and srun, which have no store of their own
        names = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
        names += (("SLURM_PROCID", "SLURM_NTASKS"),)
        rank, size = next(pair for pair in names if pair[0] in os.environ)
        where = {"rank": int(os.environ[rank]), "world_size": int(os.environ[size])}
        where["init_method"] = os.environ["STORE"]
    dist.init_process_group("gloo", **where)
    rank = dist.get_rank()
    dist.barrier()  # ranks may start further apart than that time-out is long
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=SECONDS))
    printflock("began", os.getpid())
    if KIND in ("absent", "never"):
        globals()[KIND](rank)
    elif KIND.startswith("raising"):
        raising(rank)
    else:
        stop(rank)
    if KIND == "absent" and rank == 3:
        time.sleep(1)
    dist.barrier()
    printflock("over")
    dist.barrier()
    dist.destroy_process_group()  # else gloo's threads may still run when the interpreter ends


try:
    main()
except Exception:  # the agent that forked us would keep it to itself
    traceback.print_exc()
    sys.exit(1)
