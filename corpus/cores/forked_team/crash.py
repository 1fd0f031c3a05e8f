"""A child forked after a parallel region waits in OpenMP for ever; its parent loses patience."""

import os
import signal
import sys

os.environ["OMP_WAIT_POLICY"] = "passive"

import torch

COUNT = 1 << 22
FUTEX = "202" if os.uname().machine == "x86_64" else "98"


def augment() -> None:
    torch.ones(COUNT).add_(1)


def wait_until_stuck(pid: int) -> None:
    """Return once the child sleeps in futex(2), a thousand looks in a row."""
    seen = 0
    while seen < 1000:
        with open(f"/proc/{pid}/syscall") as file:
            seen = seen + 1 if file.read().split()[0] == FUTEX else 0


def main() -> None:
    torch.set_num_threads(4)
    augment()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"x")
        augment()
        os._exit(0)
    os.read(reader, 1)
    wait_until_stuck(pid)
    os.kill(pid, signal.SIGQUIT)
    os.waitpid(pid, 0)
    sys.exit(1)


main()
