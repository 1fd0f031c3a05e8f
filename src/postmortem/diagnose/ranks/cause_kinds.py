"""How it is known who failed first, and of which kind a cause is: the words of types."""

from enum import StrEnum


class CauseKind(StrEnum):
    """What singles out who failed first, or why nobody is singled out."""

    OWN_EXCEPTION = "own exception"
    EVERY_RANK = "every rank"
    CRASH = "crash"
    """A signal, or a message that announces one."""
    SILENT_EXIT = "silent exit"
    """An exit code other than 0, and no error."""
    THREAD = "thread"
    """A thread of it died; the process lived on and was missed."""
    COLLECTIVE = "collective"
    """It called another collective than most."""
    NUMBERS = "numbers"
    """The numerics monitor saw its numbers go bad first."""
    RECORDED = "recorded"
    """The flight recorders show that it called something else, or not what the others wait in."""
    STACK = "stack"
    """It stands elsewhere, while all others wait in a collective."""
    KERNEL = "kernel log"
    """The kernel's log names it, its GPU, or its host."""
    NODE = "node"
    """The scheduler says that a host failed."""
    NAMED = "named"
    """A monitored barrier or a watchdog names it."""
    CALL_SITE = "call site"
    """It waits elsewhere than most."""
    SILENT = "silent"
    """It has no error while all others wait for a peer."""
    LEFT_EARLY = "left early"
    """It ended with 0 while others still needed it."""
    MISSING = "missing"
    """It never joined."""
    STARTUP = "startup"
    """No rank: what the job needs to start was not there."""
    STOPPED = "stopped"
    """From outside: a signal, a scheduler, Ctrl-C."""
    JOBS = "jobs"
    """A batch system's log of events: it holds a job, removed it, or tells of a bad end."""
    UNDECIDED = "undecided"
    LAST_WORDS = "last words"
    """The last lines of a process read like an error, and nothing stands behind them."""
    NOTHING = "nothing"


class StartupFault(StrEnum):
    """What a job lacked when it started."""

    PORT_IN_USE = "port in use"
    INTERFACE = "interface"
    NAME = "name"
    PEERS = "peers"
    """The store answered, and the ranks could not connect to each other."""
    UNREACHABLE = "unreachable"
    MISSING = "missing"
    RENDEZVOUS = "rendezvous"
    TOO_MANY = "too many"
    """More processes counted themselves in a store than the job has."""


class Doubt(StrEnum):
    """Why it cannot be decided who failed first."""

    ERRORS = "errors"
    """Ranks have different errors of their own, and nothing orders them."""
    COLLECTIVES = "collectives"
    """They called different collectives, and neither side is the larger one."""
    SIZES = "sizes"
    """A message is larger than what was asked for: one of its two ends is wrong."""
    SITES = "sites"
    """Several wait elsewhere than most."""
    STACKS = "stacks"
    """They stand in different places, and neither side is the larger one."""
    SILENT = "silent"
    """Some have no error while others wait for a peer."""
    UNSEEN = "unseen"
    """All whose stacks are there wait in one collective; of the others there is no stack."""
    PEERS = "peers"
    """All errors are about a peer."""
    NAMED = "named"
    """A rank of which no error is here timed out first, as others say."""
    CUT = "cut"
    """The log ends within a traceback."""
    JAM = "jam"
    """By the flight recorders several may hold up the others."""
    ENDS = "ends"
    """Launchers say that ranks ended badly, and no line says why."""


class NamedBy(StrEnum):
    """Who says that a rank did not come."""

    BARRIER = "barrier"
    HEARTBEAT = "heartbeat"
    ENQUEUED = "enqueued"
    """Watchdogs, each of which says how much its rank had enqueued."""


class Stop(StrEnum):
    """What a scheduler says it stopped a job for."""

    TIME = "time"
    PREEMPTED = "preempted"
    MEMORY = "memory"
    NODE = "node"
    REQUEUED = "requeued"
    TASK = "task"
    LIMIT = "limit"
