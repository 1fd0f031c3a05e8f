"""Which rank of which job a process was, by the variables of whoever launched it."""

from collections.abc import Mapping

from postmortem.records import record


@record
class Placement:
    """A process's place in its job; None where no variable says it, or says nonsense."""

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    launcher: str | None = None


@record
class _Variables:
    launcher: str
    rank: tuple[str, ...]
    local_rank: tuple[str, ...] = ()
    world_size: tuple[str, ...] = ()


# Who is nearest to the program comes first: torchrun starts under mpirun or srun, mpirun starts its
# daemons through srun, and each leaves its own variables in the environment.
_LAUNCHERS = (
    _Variables("torchrun", ("RANK",), ("LOCAL_RANK",), ("WORLD_SIZE",)),
    _Variables("Horovod", ("HOROVOD_RANK",), ("HOROVOD_LOCAL_RANK",), ("HOROVOD_SIZE",)),
    _Variables(
        "Open MPI",
        ("OMPI_COMM_WORLD_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
    ),
    _Variables(
        "MVAPICH",
        ("MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"),
        ("MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"),
        ("MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"),
    ),
    _Variables(
        "JSM", ("JSM_NAMESPACE_RANK",), ("JSM_NAMESPACE_LOCAL_RANK",), ("JSM_NAMESPACE_SIZE",)
    ),
    _Variables("Flux", ("FLUX_TASK_RANK",), ("FLUX_TASK_LOCAL_ID",), ("FLUX_JOB_SIZE",)),
    _Variables("Cray PALS", ("PALS_RANKID",), ("PALS_LOCAL_RANKID",), ("PMI_SIZE",)),
    _Variables("Cray ALPS", ("ALPS_APP_PE",), ("PMI_LOCAL_RANK",), ("PMI_SIZE",)),
    _Variables("MPICH", ("PMI_RANK",), ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"), ("PMI_SIZE",)),
    _Variables("PMIx", ("PMIX_RANK",)),
    _Variables(
        "SLURM",
        ("SLURM_PROCID",),
        ("SLURM_LOCALID",),
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"),
    ),
)
# srun speaks these to the program, so their rank is its own.
_SPOKEN_BY_SRUN = {"MPICH", "PMIx", "Cray ALPS"}
_MAX_DIGITS = 8


def find_placement(env: Mapping[str, str]) -> Placement:
    """Return what the environment says of rank, local rank and world size.

    The launcher nearest to the program wins. Values that are no numbers, or a rank outside of its
    world, are as good as none.
    """
    slurm = _placement(_LAUNCHERS[-1], env)
    for variables in _LAUNCHERS:
        found = _placement(variables, env)
        if found is None:
            continue
        if variables.launcher == "torchrun":
            return _torch_placement(found, env)
        if variables.launcher in _SPOKEN_BY_SRUN and slurm and slurm.rank == found.rank:
            return slurm
        return found
    return Placement(local_rank=_number(env, ("LOCAL_RANK",)))


def _torch_placement(found: Placement, env: Mapping[str, str]) -> Placement:
    """RANK and its kin are torch.distributed's convention; what stands beside them tells more."""
    launcher: str | None = "torchrun"
    if any(name.startswith("ACCELERATE_") for name in env):
        launcher = "accelerate"
    elif "CROSS_RANK" in env and "CROSS_SIZE" in env:  # deepspeed/launcher/launch.py
        launcher = "DeepSpeed"
    elif not any(name.startswith("TORCHELASTIC_") for name in env):
        launcher = None  # a script may have set them itself
    return Placement(found.rank, found.local_rank, found.world_size, launcher)


def _placement(variables: _Variables, env: Mapping[str, str]) -> Placement | None:
    rank = _number(env, variables.rank)
    if rank is None:
        return None
    world_size = _number(env, variables.world_size)
    if world_size is not None and rank >= world_size:
        return None
    local_rank = _number(env, variables.local_rank)
    if world_size is not None and local_rank is not None and local_rank >= world_size:
        local_rank = None
    return Placement(rank, local_rank, world_size, variables.launcher)


def _number(env: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = env.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
            return int(text)
    return None


def find_job(env: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable that says which job this is, and its value."""
    names = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
    # torchrun calls every job "none" that --rdzv-id does not name.
    found = ((name, env.get(name, "")) for name in names)
    return next((one for one in found if one[1] not in ("", "none")), None)


def find_hostname(env: Mapping[str, str]) -> str | None:
    """Return the name of the machine; a core does not hold it, launchers and shells may."""
    for name in ("SLURMD_NODENAME", "PMIX_HOSTNAME", "HOSTNAME", "HOST"):
        if env.get(name):
            return env[name]
    return None
