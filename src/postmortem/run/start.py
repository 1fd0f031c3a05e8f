"""Starts the command as a shell would, and says what keeps it from starting."""

import errno
import os
import resource
import signal
import struct
from collections.abc import Mapping, Sequence

from postmortem.errors import Refusal

NOT_EXECUTABLE = 126
NOT_FOUND = 127

_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them, and what is ignored stays so in programs that it starts."""


class CommandError(Refusal):
    """The command cannot be started; `status` is what a shell would exit with."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


def start(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    core_limit: tuple[int, int] | None,
    ignored: frozenset[int],
    cgroup: str | None = None,
    limits: Mapping[int, tuple[int, int]] | None = None,
) -> int:
    """Start a command in our place: our descriptors, process group, terminal. Returns its pid.

    `limits` are more limits of resources, soft and hard, by their number.
    Raises CommandError where it is not found or not executable.
    """
    pipe, end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(command, env, end, core_limit, ignored, cgroup, limits or {})
    os.close(end)
    said = os.read(pipe, 8)
    os.close(pipe)
    if not said:
        return pid
    os.waitpid(pid, 0)
    number, stage = struct.unpack("<ii", said)
    if stage:
        what = f"cannot be put into the memory limit: {os.strerror(number)}"
        raise CommandError(f"{command[0]}: {what}", NOT_EXECUTABLE)
    if number in (errno.ENOENT, errno.ENOTDIR):
        what = "command not found" if "/" not in command[0] else "no such file"
        raise CommandError(f"{command[0]}: {what}", NOT_FOUND)
    raise CommandError(f"{command[0]}: {os.strerror(number).lower()}", NOT_EXECUTABLE)


def _become(
    command: Sequence[str],
    env: Mapping[str, str],
    pipe: int,
    core_limit: tuple[int, int] | None,
    ignored: frozenset[int],
    cgroup: str | None,
    limits: Mapping[int, tuple[int, int]],
) -> None:
    """Turn into the command; never returns."""
    number, stage = errno.ENOENT, 0
    try:
        for one in _RESTORED:
            signal.signal(one, signal.SIG_DFL)
        for other in ignored:
            signal.signal(other, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if core_limit is not None:
            resource.setrlimit(resource.RLIMIT_CORE, core_limit)
        if cgroup is not None:
            stage = 1
            with open(f"{cgroup}/cgroup.procs", "w") as stream:  # noqa: PTH123
                stream.write("0")
            stage = 0
        for which, values in limits.items():
            resource.setrlimit(which, values)
        try:
            os.execvpe(command[0], list(command), env)
        except OSError as error:
            number = error.errno or errno.ENOENT
            if number == errno.ENOEXEC:  # a script without a first line; execvp(3) does the same
                os.execve("/bin/sh", ["/bin/sh", *command], env)
    except OSError as error:
        number = error.errno or errno.ENOENT
    except BaseException:
        number = errno.EINVAL
    finally:
        os.write(pipe, struct.pack("<ii", number, stage))
        os._exit(NOT_FOUND)
