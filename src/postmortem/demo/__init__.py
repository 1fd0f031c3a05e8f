"""Sample programs that crash for real, each in a way that training jobs do.

The files named after a kind are run as programs by `postmortem demo`, never imported.
"""

KINDS = {
    "segv": "a data loader thread passes a null pointer to C",
    "abort": "a bad free() corrupts the heap, and glibc aborts",
    "bus": "a mapped data file is truncated by somebody else",
    "stack": "Python and C call each other until the stack is used up",
    "kill": "a rank that hangs is killed from outside with SIGABRT",
}
"""Kind to what happens in it, the default first."""
