"""Where the command starts: an interrupt while modules are imported ends it without a word."""

import signal


def run() -> None:
    """Run the command line of this process and end the process.

    Until everything is imported Ctrl-C ends the process as a signal does, with no traceback of
    ours and none of Python's; then it raises KeyboardInterrupt, which `main` turns into 130. An
    interrupt that is ignored (nohup, a job in the background) stays ignored.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from postmortem.cli.main import run_as_program

    run_as_program(restore_interrupt=ours)
