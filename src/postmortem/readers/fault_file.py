"""A fault with what is not in the core: the file under its address, the text of its instruction."""

import os

from postmortem.facts.core import CoreFacts
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.memory import Address, MappedFile
from postmortem.knowledge.modules import stem
from postmortem.readers.files import mapped_file
from postmortem.records import replace


def looked_up(
    facts: CoreFacts,
    signal: Signal | None,
    fault: Fault | None,
    instruction: str | None,
    *,
    sysroot: str | None,
) -> Fault | None:
    """Return the fault with the file under it, if SIGBUS came of it, and gdb's `instruction`."""
    if fault is None:
        return None
    if signal is not None and signal.name == "SIGBUS":
        file = _file_under(fault.address, elsewhere=_is_elsewhere(facts, sysroot))
        fault = fault if file is None else replace(fault, file=file)
    stood = facts.fault
    here = stood is not None and stood.pc.value == fault.pc.value  # gdb shows where it ended
    if here and instruction is not None and fault.instruction is not None:
        fault = replace(fault, instruction=replace(fault.instruction, text=instruction))
    return fault


def _is_elsewhere(facts: CoreFacts, sysroot: str | None) -> bool:
    """Whether the core is of another machine, whose data files are not the ones that lie here.

    Another C library than the one here is the root of another file system, too.
    """
    if sysroot is not None or facts.process.machine != os.uname().machine:
        return True
    of_c = [m.status for m in facts.modules if stem(m.path.rpartition("/")[2]) == "libc"]
    return bool(of_c) and not any(status in ("ok", "unverified") for status in of_c)


def _file_under(address: Address | None, *, elsewhere: bool) -> MappedFile | None:
    """The file that is mapped at an address, as it is now."""
    if address is None or address.path is None or address.file_offset is None:
        return None
    if address.kind not in ("file", "shared memory", "module"):
        return None
    path = address.path.removesuffix(" (deleted)")
    if elsewhere:
        deleted = path != address.path
        return MappedFile(
            path, address.file_offset, exists=False, deleted_then=deleted, elsewhere=True
        )
    return mapped_file(path, address.file_offset, deleted=path != address.path)
