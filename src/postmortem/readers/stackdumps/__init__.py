"""Stacks that other tools wrote down: py-spy, pystack, gdb, faulthandler, and our own JSON."""

from postmortem.readers.stackdumps.gdb_text import of_a_crash, process_in
from postmortem.readers.stackdumps.read import looks_like_stacks, read_stack_dumps

__all__ = ["looks_like_stacks", "of_a_crash", "process_in", "read_stack_dumps"]
