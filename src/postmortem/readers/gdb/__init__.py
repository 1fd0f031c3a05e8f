"""gdb as the second source: source lines, inlined frames, arguments and locals.

`find` finds a gdb, `stacks` asks it once for everything, `merge` lays its answer over the native
stacks. Everything between is ours because gdb may hang, die or talk nonsense.
"""
