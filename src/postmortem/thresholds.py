"""Where a conclusion turns: every number that decides, with what it was taken from.

Rules read them here when they are run, so that a score can vary them
(``python -m corpus.score --threshold CAUGHT_LINES=20``). How many of a thing are shown, and how
much of a file is read, decides nothing and stands where it is used.

Those for system-call logs, logs of ranks, and LATE_SECONDS and STILL_SECONDS were each halved and
doubled alone: of the 244 answers on cases and recordings of system calls and the 305 on cases and
runs of ranks one changed (PEERS_OF_A_BAD_LINK doubled). At 0 the lines of the first changed 86,
those of CAUGHT 5. They are roomy; what each was chosen for stands below it.
"""

# System-call logs: lines of the log.
FATE_LINES = 3000
"""A failure at most so many lines before its process ends badly may well be why."""
UNNAMED_FAILURE_LINES = 400
"""Lines between a failure that nobody named and the end of its process."""
SURE_FAILURE_LINES = 30
"""So few that there was hardly time for anything else to fail."""
FAILED_LOOKUP_LINES = 150
"""Lines behind which a failed look-up is no longer what words mean that name no file."""
NAMED_FILE_LINES = 200
"""Lines between a failure and the words that name its file."""
CUT_MESSAGE_LETTERS = 10
"""Letters of a message that strace -s has cut which must be there to know it."""
CHILD_FAILED_LINES = 300
"""Lines within which a process ends because a child of it failed."""
FILTERED_CALLS = 200
"""Calls of a log in which not one failed, or none has a duration, before that says how it was
recorded; a dynamically linked program makes some forty before its main() starts."""
SNIPPET_CALLS = 20
"""Calls that a log must hold before what it lacks says anything."""
LOCK_WAIT_SECONDS = 1.0
"""So long in a call for a lock when a signal came: what was waited for, and no chance."""
SPIN_WAITS = 3
"""Waits that came back with something ready, and nothing was done, before a loop spins."""
SPIN_SHARE = 10
"""So many of them for each call that did something: what a program does before its loop."""
SPIN_SECONDS = 0.05
"""Seconds between two of them with which no processor is busy."""
SPIN_SURE_WAITS = 1000
"""So many of them are no accident."""

# Logs of ranks.
CAUGHT_LINES = 10
"""So many lines after a traceback its process was still at work: it had caught it."""
CAUGHT_LINES_OF_FAILED = 200
"""The same for a process that ended badly: it may have cleaned up."""
CAUGHT_LINES_OF_SHARED = 40
"""The same in a file that several ranks write: the lines may be the others'."""
WORK_OF_OTHERS = 10
"""Lines of work behind an error that may be of others: more than they print until they wait."""
WORK_VALUES = 3
"""Values that what moves on in lines of one form has had: two may be the heads of two runs."""
WORK_ALIKE = 12
"""Lines of one form, with something that moves on, that are work where none was above an error."""
END_LINES = 500
"""Lines of a file between a failure and what is no part of its end."""
AT_ONCE_SECONDS = 2.0
"""Seconds between two time stamps that order nothing."""
ONE_EVENT_SECONDS = 5.0
"""Seconds within which kills of one kind are one event."""
OF_THE_WAIT = 0.9
"""Of how long others waited for a peer, so much at least passed for one that came behind it."""
PEERS_OF_A_BAD_LINK = 3
"""Ranks or hosts that complain of one peer: of two at odds neither is more to blame."""

# Flight recorders and live processes.
LATE_SECONDS = 20.0
"""Clocks of hosts and steps of a program differ by less."""
STILL_SECONDS = 10.0
"""A dump that is written so long after its newest call is of a rank that does not go on."""
BEHIND_CALLS = 2
"""One call may have ended at a peer a moment before it ends here."""
HELD_UP_SECONDS = 60.0
"""A rank alone that stands still for so long while the others wait is told for certain."""
SLOW_SAMPLES = 12
"""Of a job; of fewer, chance alone may show one rank outside of a collective most of the time.
That a signal has stopped one is seen itself, and in fewer."""
SLOW_SHARE = 0.65
"""Share of samples in which a slow rank is awaited, or stopped."""
FAST_SHARE = 0.1
"""The same of each other rank at most: where two are awaited in turns, none is the slow one."""
SLOW_STEPS = 2
"""Times that the others must have come out of a collective meanwhile: one may be a long step."""
HOT_PATH_LOOKS = 3
"""At a process that computes, however long they take: fewer have anything in common by chance."""

# Cores.
RECURSION_FRAMES = 30
"""Appearances of one function that no ordinary stack shows together with the share below."""
RECURSION_SHARE = 0.75
"""Share of the innermost frames that a recursion takes."""
OVERFLOW_FRAMES = 380
"""Frames of one recursion that make an overflow likely where no address is known."""
STACK_NEAR_BYTES = 64 * 1024
"""How far below the stack pointer an access can be and still belong to its frame."""
NEIGHBOUR_BYTES = 1 << 30
"""Distance up to which a neighbouring mapping tells something about a bad address."""
OWN_THREADS = 500
"""Threads of a process from which on it may be the one that used up a limit of threads."""

# Numbers, checkpoints, memory, networks, fleets.
SAME_MODEL_SHARE = 0.5
"""Share of the names of tensors that two checkpoints of one model have in common at least."""
NEAR_OVERFLOW_SHARE = 0.25
"""From this share of a type's largest value on, two doublings are an overflow."""
EDGE_SHARE = 0.5
"""From this share of a type's largest value on, the next doubling is an overflow."""
UNDERFLOW_SHARE = 0.5
"""From this share of values that are zero or subnormal on, a gradient is told to underflow."""
GROWTH_SECONDS = 60.0
"""Growth that was watched for less is possible: programs fill caches when they begin."""
FORECAST_SECONDS = 24 * 3600.0
"""What would take longer to run out is not forecast."""
ALMOST_FULL_SHARE = 0.97
"""Of a limit on memory, where nothing is seen to grow."""
FULL_SHARE = 0.9
"""Of a limit, when a process was seen last: it may have ended by it."""
LARGEST_HOLDER_SHARE = 0.2
"""The kernel kills who holds most; a process with less of the limit than this is not it."""
SLOW_FACTOR = 10.0
"""A tenth of the median: a link that fell back from 10 Gbit/s to 1, or a lossy cable."""
SLOW_BYTES_A_SECOND = 30e6
"""Bytes a second above which a small sample over TCP says nothing of the link."""
ODD_SHARE = 0.1
"""Ranks in one place that are at most so few of all stand apart."""

HOST_STARTS_SECONDS = 1800.0
"""A host with much memory, or one that checks its disks, takes minutes until its kernel begins."""
KILLED_BY_AGENT = 25.0
"""Seconds after the first end of a job from which on a kill is torchrun's own: its agent sends
SIGTERM, and SIGKILL 30 s later (torch/distributed/elastic/multiprocessing/api.py); the times in its
table are whole seconds, and a host may be slow to tell."""
