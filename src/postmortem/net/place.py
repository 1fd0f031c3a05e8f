"""Which node of how many this is, and where they meet, by options or the launcher's variables."""

import os
import re
from collections.abc import Mapping

from postmortem.errors import Refusal
from postmortem.readers.launcher import find_job, find_placement
from postmortem.records import record

DEFAULT_PORT = 29_500


class Unplaced(Refusal):
    """What is missing, as one line."""


@record
class Place:
    """This node's number among all, the meeting point, and what keeps jobs apart."""

    number: int
    world: int
    host: str
    port: int
    token: str
    takes_part: bool
    """False for all but the first process of a node."""


def find_place(
    number: int | None,
    world: int | None,
    master: str | None,
    token: str | None,
    env: Mapping[str, str] = os.environ,
) -> Place | None:
    """Return the place of this process; None where nothing says that there are others.

    Raises Unplaced where something is said, and not all.
    """
    found = find_placement(env)
    local = found.local_rank or 0
    if world is None:
        number_said, world = _nodes(env)
        number = number if number is not None else number_said
        if world is None and found.world_size is not None:
            number, world, local = found.rank, found.world_size, 0
        if world is None:
            if number is not None or master is not None:
                raise Unplaced("--nodes N is missing: how many nodes there are")
            return None
    if number is None:
        number = _nodes(env)[0] if _nodes(env)[1] == world else found.rank
    if number is None:
        raise Unplaced("--node I is missing: which of them this is, from 0")
    if not 0 <= number < world:
        raise Unplaced(f"node {number} is none of {world}: they count from 0")
    host, port = _master(master, env)
    if host is None:
        if world > 1:
            raise Unplaced("--master HOST[:PORT] is missing (or MASTER_ADDR): where they meet")
        host = "127.0.0.1"
    token = token or env.get("POSTMORTEM_NET_TOKEN") or _job(env)
    if not token:
        raise Unplaced(
            "a word that keeps strangers out is missing, the same on all nodes: --token, or "
            "POSTMORTEM_NET_TOKEN"
        )
    return Place(number, world, host, port, token, takes_part=local == 0)


def _nodes(env: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the number of this node and how many there are, of launchers that count nodes."""
    for number, world in (
        ("GROUP_RANK", "GROUP_WORLD_SIZE"),
        ("SLURM_NODEID", "SLURM_STEP_NUM_NODES"),
        ("SLURM_NODEID", "SLURM_NNODES"),
    ):
        values = env.get(number, ""), env.get(world, "")
        if all(value.isdecimal() and len(value) < 8 for value in values):
            first, second = map(int, values)
            if first < second:
                return first, second
    return None, None


def _master(text: str | None, env: Mapping[str, str]) -> tuple[str | None, int]:
    port = env.get("MASTER_PORT", "")
    default = int(port) if port.isdecimal() and 0 < int(port) < 65_535 else DEFAULT_PORT
    if "TORCHELASTIC_RUN_ID" in env:
        default += 1  # torchrun itself listens at MASTER_PORT, for the store of its ranks
    if text is not None:
        host, said = split_place(text)
        return host, said or default
    if env.get("MASTER_ADDR"):
        return env["MASTER_ADDR"], default
    return _first_host(
        env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or ""
    ), default


def split_place(text: str) -> tuple[str, int | None]:
    """Return host and port of ``HOST``, ``HOST:PORT`` or ``[V6]:PORT``; raises ValueError."""
    if match := re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?", text):
        host, port = match[1], match[2]
    elif text.count(":") > 1:
        host, port = text, None
    else:
        host, colon, said = text.partition(":")
        if colon and not re.fullmatch(r"\d{1,5}", said):
            raise ValueError(f"{text!r} has no port behind the colon")
        port = said or None
    number = int(port) if port else None
    if not host or any(char.isspace() for char in host) or host.startswith("-"):
        raise ValueError(f"{text!r} is not a host")
    if number is not None and not 0 < number < 65_536:
        raise ValueError(f"{number} is not a port: ports go from 1 to 65535")
    return host, number


def _first_host(text: str) -> str | None:
    """Return the first host of SLURM's ``node[003-007,9],login1``."""
    match = re.match(r"([^\[,\s]+)(?:\[(\d+)[^\]]*\])?([^,\[\s]*)", text)
    return match[1] + (match[2] or "") + (match[3] or "") if match else None


def _job(env: Mapping[str, str]) -> str:
    """Return the id of the job: it keeps two jobs apart, and is no secret."""
    found = find_job(env)
    if found is not None:
        step = env.get("SLURM_STEP_ID", "") if found[0] == "SLURM_JOB_ID" else ""
        return f"{found[0]}={found[1]}.{step}"
    if "TORCHELASTIC_RUN_ID" in env:
        return f"torchrun at {env.get('MASTER_ADDR')}:{env.get('MASTER_PORT')}"
    return ""
