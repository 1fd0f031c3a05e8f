"""Who has a port on this machine."""

import contextlib
import pwd

from postmortem.facts.net import Holder
from postmortem.readers.live.descriptors import connection, inode_of, open_files
from postmortem.readers.live.status import all_pids, read_status, text_or_none

_LISTENING = 10


def holder_of(port: int) -> Holder | None:
    """Return who listens at a TCP port of this network namespace, or else has it otherwise.

    The pid is None where the process is another user's, or of another container: /proc does not
    show it to us then.
    """
    rows = []
    for name in ("tcp", "tcp6"):
        for line in (text_or_none(f"/proc/self/net/{name}") or "").splitlines()[1:]:
            one = connection(line, "TCP")
            if one is not None and one.local.rpartition(":")[2] == str(port):
                rows.append((one.state != _LISTENING, one, _user(line.split()[7])))
    if not rows:
        return None
    _, one, user = min(rows, key=lambda row: row[0])
    pid = _owner(one.inode) if one.inode else None
    status = read_status(pid) if pid is not None else None
    command = " ".join(status.argv)[:300] or status.command if status is not None else ""
    if not command and not one.inode:
        command = "no process: the kernel keeps a closed connection for a minute (TIME_WAIT)"
    return Holder(one.local, pid, command, user)


def _owner(inode: int) -> int | None:
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if any(inode_of(target) == inode for _, target in open_files(pid)):
                return pid
    return None


def _user(uid: str) -> str:
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError):
        return f"uid {uid}"
