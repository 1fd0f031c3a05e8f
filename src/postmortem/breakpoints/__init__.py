"""Breakpoints on one rank of a job, and prints of many ranks that do not tear each other.

Training code imports this: no reader of evidence, no rule and no renderer is loaded, and PyTorch
only where the program has loaded it already.
"""

from postmortem.breakpoints.call import breakpoint_on_rank
from postmortem.breakpoints.printing import printflock

__all__ = ["breakpoint_on_rank", "printflock"]
