"""Names of signals and of the reasons for them.

Numbers are those of Linux on x86-64 and aarch64, not of the machine that reads the core:
signal(7) and include/uapi/asm-generic/siginfo.h.
"""

_NAMES = (
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP "
    "TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
).split()
_FIRST_REAL_TIME = 34  # as the C library counts: it keeps 32 and 33 for itself
_LAST = 64

# Codes that any signal may have.
_GENERAL = {
    0: "SI_USER",
    0x80: "SI_KERNEL",
    -1: "SI_QUEUE",
    -2: "SI_TIMER",
    -3: "SI_MESGQ",
    -4: "SI_ASYNCIO",
    -5: "SI_SIGIO",
    -6: "SI_TKILL",
    -7: "SI_DETHREAD",
    -60: "SI_ASYNCNL",
}

# Codes of one signal, counted from 1.
_BY_SIGNAL = {
    "SIGILL": "ILLOPC ILLOPN ILLADR ILLTRP PRVOPC PRVREG COPROC BADSTK BADIADDR",
    "SIGFPE": "INTDIV INTOVF FLTDIV FLTOVF FLTUND FLTRES FLTINV FLTSUB",
    "SIGSEGV": "MAPERR ACCERR BNDERR PKUERR ACCADI ADIDERR ADIPERR MTEAERR MTESERR CPERR",
    "SIGBUS": "ADRALN ADRERR OBJERR MCEERR_AR MCEERR_AO",
    "SIGTRAP": "BRKPT TRACE BRANCH HWBKPT UNK PERF",
    "SIGCHLD": "EXITED KILLED DUMPED TRAPPED STOPPED CONTINUED",
    "SIGIO": "IN OUT MSG ERR PRI HUP",
    "SIGSYS": "SECCOMP USER_DISPATCH",
}
_PREFIXES = {"SIGIO": "POLL", "SIGCHLD": "CLD"}


def signal_name(number: int) -> str:
    """Return ``"SIGSEGV"`` for 11, ``"SIGRTMIN+3"`` for 37; what has no name keeps its number."""
    if 1 <= number <= len(_NAMES):
        return f"SIG{_NAMES[number - 1]}"
    if _FIRST_REAL_TIME <= number <= _LAST:
        offset = number - _FIRST_REAL_TIME
        return f"SIGRTMIN+{offset}" if offset else "SIGRTMIN"
    return f"signal {number}"


def code_name(signal: int, code: int) -> str | None:
    """Return ``"SEGV_MAPERR"``, ``"SI_TKILL"`` … for `si_code`, None if it has no name."""
    if code in _GENERAL:
        return _GENERAL[code]
    name = signal_name(signal)
    words = _BY_SIGNAL.get(name, "").split()
    if 1 <= code <= len(words):
        return f"{_PREFIXES.get(name, name[3:])}_{words[code - 1]}"
    return None
