"""Standard streams of a program that the kernel starts."""

import os
import sys


def open_standard_streams() -> None:
    """Fill descriptors 1 and 2, which the kernel leaves closed for a handler of core_pattern.

    Else the files that are opened here would get these numbers, and stray output would go there.
    What is said goes to the kernel's log then, where why a core is missing is looked up.
    """
    for number in (1, 2):
        try:
            os.fstat(number)
        except OSError:
            _fill(number, os.devnull if number == 1 else "/dev/kmsg")
    if sys.stderr is None:  # for a descriptor that was closed when Python started
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _fill(number: int, path: str) -> None:
    try:
        opened = os.open(path, os.O_WRONLY)
    except OSError:  # only root may write to the kernel's log
        opened = os.open(os.devnull, os.O_WRONLY)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
