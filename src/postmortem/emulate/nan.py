"""NaN in what a module of PyTorch returns, by a hook in each Python process of the command."""

import contextlib
import os
import secrets
import socket

from postmortem.emulate.fault import Fault
from postmortem.run.environment import with_hook


class Nan(Fault):
    """The first element of a module's output is NaN, in one of its calls.

    The hook comes through PYTHONPATH and tells over a socket without a file that it has worked.
    """

    def __init__(self, module: str, step: int, rank: int | None) -> None:
        self._module = module
        self._step = step
        self._name = f"postmortem-emulate-{secrets.token_hex(8)}"
        only = "" if rank is None else str(rank)
        self.variables = {
            "PYTHONPATH": with_hook(os.environ.get("PYTHONPATH")),
            "POSTMORTEM_EMULATE_NAN": f"{self._name}:{step}:{only}:{module}",
        }
        where = "" if rank is None else f" on rank {rank}"
        self.missed = f"no module {module!r} was called {step + 1} times{where} in a Python process"

    def enter(self) -> None:
        """Listen: a socket in the abstract namespace, which goes with the last who has it open."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self._name}")

    def told(self) -> list[str]:
        """Return where it happened."""
        said = []
        self._socket.setblocking(False)
        with contextlib.suppress(OSError), self._socket:
            while True:
                pid, _, rank = self._socket.recv(64).decode("ascii", "replace").partition("\n")
                who = f"rank {rank} (pid {pid})" if rank else f"pid {pid}"
                said.append(f"NaN in {self._module}, call {self._step}, {who}")
        return said
