"""Who holds up a job that hangs: the graph of who waits for whom, over all process groups.

Ranks and unfinished operations are its nodes: a rank waits in an operation, an operation lacks
ranks. Every wait is a path, and what paths end in holds up the job: a rank that waits for nothing,
an operation that all have called, a rank without a dump, or a ring.
"""
