"""Which gdb to use: the one asked for, then PATH, then the wheel in our own environment."""

import os
import re
import shutil
import sys
from pathlib import Path

from postmortem.errors import DebuggerError
from postmortem.readers.gdb.child import Child
from postmortem.readers.gdb.launch import environment
from postmortem.records import record

HINT = "install one: apt-get install gdb, or pip install 'torch-postmortem[gdb]'"
_PROBE_SECONDS = 20.0  # a cold NFS home took 6 s to start the wheel's gdb; a hang takes for ever
_PROBE_BYTES = 1 << 16


@record
class Gdb:
    """A gdb, and what it answered to ``--version`` if it was asked."""

    path: str
    version: tuple[int, int] | None
    version_text: str
    """First line of its ``--version``; empty if nobody has asked yet."""
    command: tuple[str, ...] = ()
    """How to start it, where that is not just `path` (the wheel without its console script)."""

    @property
    def start(self) -> tuple[str, ...]:
        """The beginning of its command line."""
        return self.command or (self.path,)


def find_gdb(explicit: str | None = None, *, probe: bool = True) -> Gdb:
    """Return the gdb to use: `explicit`, else ``$POSTMORTEM_GDB``, else PATH, else the wheel.

    Without `probe`, the first one on PATH or the wheel's is taken unseen: starting it to ask for
    its version takes as long as a third of the whole conversation.
    One that was asked for and does not work is an error, never passed over: the caller would read
    another gdb's answer. Raises `DebuggerError`.
    """
    asked = explicit or os.environ.get("POSTMORTEM_GDB")
    if asked:
        origin = "--gdb" if explicit else "POSTMORTEM_GDB"
        named = Path(asked).expanduser()
        # Path drops the "./" that keeps a name from being looked up on PATH.
        path = shutil.which(str(named.absolute() if "/" in asked else named))
        if path is None:
            seen = "is not executable" if Path(asked).exists() else "does not exist"
            raise DebuggerError(f"{origin} names {asked}, which {seen}", hint=HINT)
        try:
            # gdb runs in another folder, so a relative path would not hold.
            return _probe(str(Path(path).absolute()))
        except DebuggerError as error:
            raise DebuggerError(f"{origin}: {error.what}", hint=HINT) from error
    failures = []
    for path, command in _candidates():
        if not probe:
            return Gdb(path=path, version=None, version_text="", command=command)
        try:
            return _probe(path, command)
        except DebuggerError as error:
            failures.append(error.what)
    tried = "; ".join(failures) or "none on PATH and no gdb-for-pwndbg in this Python"
    raise DebuggerError(f"no gdb found ({tried})", hint=HINT)


def _candidates() -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    on_path = shutil.which("gdb")
    if on_path is not None:
        found.append((str(Path(on_path).absolute()), ()))
    wheel = _wheel()
    if wheel is not None:
        found.append(wheel)
    return found


def _wheel() -> tuple[str, tuple[str, ...]] | None:
    # gdb-for-pwndbg 18.1 keeps the binary in gdb_for_pwndbg/_vendor/bin/gdb, which runs only with
    # --data-directory and PYTHONHOME set by its own launcher (and a link to libpython that this
    # makes): so that launcher is started, through our own interpreter because the console script
    # may be missing (pip install --target) or hidden behind another gdb.
    from importlib.util import find_spec

    spec = find_spec("gdb_for_pwndbg")
    if spec is None or not spec.submodule_search_locations:
        return None
    binary = Path(next(iter(spec.submodule_search_locations)), "_vendor", "bin", "gdb")
    if not binary.exists():
        return None
    # Our own import path may hold what an isolated Python does not see (PYTHONPATH, --target).
    site = str(binary.parents[3])
    start = (
        f"import sys; sys.path.append({site!r}); "
        "from gdb_for_pwndbg.gdb import main; sys.argv[0] = 'gdb'; sys.exit(main())"
    )
    return str(binary), (sys.executable, "-I", "-c", start)


def _probe(path: str, command: tuple[str, ...] = ()) -> Gdb:
    said, complaint, ending = _version_output(path, command or (path,))
    first = next((line.strip() for line in said.splitlines() if line.strip()), "")
    if "gdb" not in first.lower():
        shown = (first or complaint.strip().rpartition("\n")[2])[:200]
        what = f"said {shown!r}" if shown else "said nothing"
        raise DebuggerError(f"{path} is not a gdb that works: --version {what} ({ending})")
    return Gdb(path=path, version=version_of(first), version_text=first[:200], command=command)


def _version_output(path: str, start: tuple[str, ...]) -> tuple[str, str, str]:
    try:
        # Without -nx some versions read the user's files first: ~/.config/gdb/gdbearlyinit.
        with Child((*start, "-nx", "--version"), cwd=None, env=environment()) as child:
            heard = child.hear(_PROBE_SECONDS, _PROBE_BYTES)
    except OSError as error:
        raise DebuggerError(f"{path} cannot be started: {error.strerror or error}") from error
    if heard.flooded:
        return heard.said, heard.complaint, "its output had no end"
    if heard.ending is None:
        raise DebuggerError(
            f"{path} does not work: --version gave no answer in {_PROBE_SECONDS:.0f} s"
        )
    return heard.said, heard.complaint, heard.ending


def version_of(line: str) -> tuple[int, int] | None:
    """Return (major, minor) from the first line of ``gdb --version``.

    Distributions put their own numbers in brackets before gdb's: ``GNU gdb (Debian 13.1-3) 13.1``.
    """
    match = re.search(r"(?<![\d.])(\d{1,3})\.(\d{1,3})", re.sub(r"\([^)]*\)", " ", line))
    return (int(match[1]), int(match[2])) if match else None
