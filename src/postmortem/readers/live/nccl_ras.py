"""What NCCL says of a job itself: the text of its RAS threads, since NCCL 2.24.

One process of a node listens at a port of the loopback. The form of the text is that of NVIDIA's
user guide; no job with GPUs has been asked yet.
"""

import re
import socket
import time
from collections.abc import Sequence

from postmortem.facts.live import LiveProcess, NcclRas
from postmortem.readers.network.holders import holder_of

_PORT = 28028
_SECONDS = 10.0
_MOST_BYTES = 4 << 20
_MOST_LINES = 200


def ask_ras(processes: Sequence[LiveProcess]) -> NcclRas | None:
    """Return what is amiss by NCCL's word; None where no process of the job listens, or answers."""
    named = (value for one in processes for key, value in one.env if key == "NCCL_RAS_ADDR")
    port = _port(next(named, ""))
    holder = holder_of(port)
    if holder is None or holder.pid not in {one.pid for one in processes}:
        return None
    try:
        return ras_of(_asked(port))
    except OSError:
        return None


def _port(address: str) -> int:
    text = address.rpartition(":")[2]
    return int(text) if text.isdecimal() and 0 < len(text) < 6 and int(text) < 1 << 16 else _PORT


def _asked(port: int) -> str:
    end, heard = time.monotonic() + _SECONDS, bytearray()
    with socket.create_connection(("localhost", port), timeout=2) as line:
        line.sendall(b"verbose status\n")
        while len(heard) < _MOST_BYTES and (left := end - time.monotonic()) > 0:
            line.settimeout(left)
            part = line.recv(1 << 16)
            if not part:
                break
            heard += part
    return heard.decode("utf-8", "replace")


def ras_of(text: str) -> NcclRas | None:
    """Return the sections that tell of trouble; None for what is no report of RAS."""
    # Each title is underlined: "Errors", "======".
    parts = re.split(r"^([A-Z][^\n]{0,80})\n=+[ \t]*\n", text, flags=re.MULTILINE)
    sections = {
        title.split("...")[0].strip(): body
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    if "Job summary" not in sections:
        return None
    rows = {
        name: tuple(line.rstrip() for line in sections.get(name, "").splitlines() if line.strip())
        for name in ("Errors", "Warnings")
    }
    return NcclRas(rows["Errors"][:_MOST_LINES], rows["Warnings"][:_MOST_LINES])
