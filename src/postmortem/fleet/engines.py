"""Starting one command on many nodes by a program that exists for it, with a deadline for each.

ssh and kubectl are started once for each node, some at a time; srun and clush once for all, and say
which node each line is of. What a node says is bounded; who says nothing in time is told.
"""

import asyncio
import base64
import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence

from postmortem.errors import Refusal
from postmortem.records import record

MOST_BYTES = 64 << 20
_MOST_OF_ALL = 1 << 30
_MOST_ERRORS = 64 << 10
GRACE = 15.0
"""Seconds beyond a node's own deadline: for connecting, and for what it has said to arrive."""


class NoEngine(Refusal):
    """No engine can be used, as one line."""


@record
class Said:
    """What one node said."""

    node: str
    out: bytes
    error: str
    status: int | None
    """None: it did not end in time."""


@record
class Engine:
    """How to start something on nodes."""

    name: str
    nodes: tuple[str, ...]
    program: tuple[str, ...] = ("postmortem",)
    """What postmortem is called there."""
    options: tuple[str, ...] = ()
    """For the engine itself: ``-p 2222``, ``-n training -c worker``."""
    at_once: int = 64
    seconds: float = 60.0
    job: str | None = None
    address: str | None = None
    """Of a Dask scheduler, or of a Ray cluster."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command as a node gets it: it ends there, whatever becomes of us."""
        limit = f"{self.seconds:g}"
        return ["timeout", "-k", "5", limit, *self.program, *words]

    def fetch(self, path: str) -> list[str]:
        """Return what makes a core slim there and writes it to standard output; leaves nothing."""
        slim = self.command(["core", path, "--slim"])
        script = (
            'd=$(mktemp -d) || exit 1; trap "rm -rf \\"$d\\"" EXIT; '
            f'{shlex.join(slim)} "$d/core" >&2 && cat "$d/core"'
        )
        return ["sh", "-c", script]


def find_engine(asked: str | None, job: str | None, env: Mapping[str, str]) -> str:
    """Return the name of the engine to use; raises NoEngine."""
    if asked is not None:
        names = [asked]
    else:
        slurm = job is not None or "SLURM_JOB_ID" in env
        names = ["srun", "clush", "ssh"] if slurm else ["clush", "ssh"]
    for name in names:
        if shutil.which(name) is not None:
            return name
    raise NoEngine(f"there is no {' and no '.join(names)} on PATH to reach the nodes with")


async def ask(engine: Engine, commands: Mapping[str, Sequence[str]]) -> AsyncIterator[Said]:
    """Yield what each node said to its command, as it comes."""
    if engine.name == "dask":
        from postmortem.fleet.dask import ask_dask

        async for said in ask_dask(engine, commands):
            yield said
        return
    if engine.name == "ray":
        from postmortem.fleet.ray import ask_ray

        async for said in ask_ray(engine, commands):
            yield said
        return
    # A single node's output comes as it is, also where it is no text.
    same = len(commands) > 1 and len({tuple(row) for row in commands.values()}) == 1
    if engine.name in ("srun", "clush") and same:
        async for said in _ask_labelled(engine, tuple(commands), next(iter(commands.values()))):
            yield said
        return
    gate = asyncio.Semaphore(engine.at_once)

    async def one(node: str) -> Said:
        async with gate:
            return await _ask_one(node, _single(engine, node, commands[node]), engine.seconds)

    tasks = [asyncio.ensure_future(one(node)) for node in commands]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        for running in tasks:
            running.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _single(engine: Engine, node: str, command: Sequence[str]) -> list[str]:
    if engine.name == "kubectl":
        return ["kubectl", "exec", *engine.options, node, "--", *command]
    if engine.name == "srun":
        job = [f"--jobid={engine.job}"] if engine.job else []
        one = ["-N1", "-n1", f"--nodelist={node}", "--overlap", "--quiet"]
        return ["srun", *job, *one, *engine.options, *command]
    if engine.name == "clush":
        return ["clush", "-NS", *engine.options, "-w", node, shlex.join(command)]
    plain = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]  # never asks for a password
    return ["ssh", *plain, *engine.options, "--", node, shlex.join(command)]


async def _ask_one(node: str, command: list[str], seconds: float, most: int = MOST_BYTES) -> Said:
    try:
        child = await _start(command)
    except OSError as error:
        return Said(node, b"", f"{command[0]}: {error.strerror}", 127)
    out, errors = bytearray(), bytearray()
    status: int | None = None
    try:
        async with asyncio.timeout(seconds + GRACE):
            await asyncio.gather(
                _drain(child.stdout, out, most), _drain(child.stderr, errors, _MOST_ERRORS)
            )
            status = await child.wait()
    except TimeoutError:
        pass
    finally:
        await _end(child)
    return Said(node, bytes(out), errors.decode("utf-8", "replace"), status)


async def _ask_labelled(
    engine: Engine, nodes: tuple[str, ...], words: Sequence[str]
) -> AsyncIterator[Said]:
    """Run srun or clush once: each line comes with its node before it.

    The lines are base64 and short: srun breaks those of more than about a thousand bytes.
    """
    # base64 goes without the step's variables: hang would take it for a rank of the job.
    packed = 'env -i PATH="$PATH" base64 -w 512'
    inner = f'{{ {shlex.join(words)}; echo "$?"; }} | {packed}'
    if engine.name == "srun":
        job = [f"--jobid={engine.job}"] if engine.job else []
        per = [f"--nodes={len(nodes)}", "--ntasks-per-node=1", "--overlap", "--quiet", "--label"]
        where = [f"--nodelist={','.join(nodes)}", "--kill-on-bad-exit=0"]
        script = f'echo "$SLURMD_NODENAME"; {inner}'
        command = ["srun", *job, *per, *where, *engine.options, "sh", "-c", script]
    else:
        script = f"echo .; {inner}"
        command = ["clush", "-f", str(engine.at_once), *engine.options]
        command += ["-w", ",".join(nodes), script]
    said = await _ask_one("", command, engine.seconds, _MOST_OF_ALL)
    errors = _by_label(said.error.encode())
    heard: dict[str, Said] = {}
    for label, rows in _by_label(said.out).items():
        name = rows[0].decode("utf-8", "replace").strip() if engine.name == "srun" else label
        out, status = _unpacked(b"".join(rows[1:]))
        error = b"\n".join(errors.get(label, ())).decode("utf-8", "replace")
        heard[name] = Said(name, out, error, status)
    last = "".join(said.error.strip().splitlines()[-1:])
    silent = None if said.status is None else 255
    for node in nodes:
        # clush says of each node what ssh said; srun speaks of all of them.
        own = b"\n".join(errors.get(node, ())).decode("utf-8", "replace")
        yield heard.get(node, Said(node, b"", own or last, silent))


def _unpacked(text: bytes) -> tuple[bytes, int | None]:
    """Return what a node said, and how it ended; the text as it came where it is no base64."""
    try:
        plain = base64.b64decode(text, validate=True)
    except ValueError:
        return text, None
    out, _, end = plain.rstrip(b"\n").rpartition(b"\n")
    if not end.isdigit() or len(end) > 3:
        return plain, None
    return out, int(end)


def _by_label(text: bytes) -> dict[str, list[bytes]]:
    """Return lines such as ``12: text`` by what is before their first colon."""
    lines: dict[str, list[bytes]] = {}
    for line in text.splitlines():
        label, colon, rest = line.partition(b":")
        if colon:
            name = label.strip().decode("utf-8", "replace")
            lines.setdefault(name, []).append(rest.removeprefix(b" "))
    return lines


async def _start(command: list[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != "SSH_ASKPASS"},
    )


async def _drain(stream: asyncio.StreamReader | None, into: bytearray, most: int) -> None:
    assert stream is not None
    while part := await stream.read(1 << 16):
        if len(into) < most:
            into += part[: most - len(into)]


async def _end(child: asyncio.subprocess.Process) -> None:
    """End a child with all that it started, and close its pipes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        await child.wait()
    transport = getattr(child, "_transport", None)
    if transport is not None:
        transport.close()
