"""The crash is in an extension module or library that is not part of the platform.

What it means
    The innermost code outside the C library belongs neither to CPython, PyTorch nor CUDA: a
    native module of yours or of a third-party package. That is where to look first.
How to be sure
    The module of the frame tells. The module may be innocent when it was handed bad data or
    when the memory was damaged before, so the finding is likely at best.
What to do
    Read that module's source at the frame; build it with -g for line numbers; report it to
    the package's developers with this stack.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, module_name, owner, package
from postmortem.diagnose.core.stacks import caller, fault_start
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.memory import Modules
from postmortem.facts.process import Process
from postmortem.facts.threads import Thread
from postmortem.text import shell_word

_KINDS = (FaultKind.ARITHMETIC, FaultKind.COMPILER_TRAP, FaultKind.RERAISED)

_DISTRIBUTIONS = {
    "cv2": "opencv-python", "PIL": "pillow", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "yaml": "PyYAML", "osgeo": "GDAL", "grpc": "grpcio", "zmq": "pyzmq", "Crypto": "pycryptodome",
    "MySQLdb": "mysqlclient", "attr": "attrs", "flash_attn_2_cuda": "flash-attn",
    "transformer_engine_torch": "transformer-engine",
}  # fmt: skip
"""What pip calls packages that are imported by another name."""


@rule("https://docs.python.org/3/extending/extending.html", role=Role.CONTRIBUTING)
def extension_crash(crash: Crash, modules: Modules) -> Findings:
    crashed = crash.crashed
    if not (crash.kind.is_memory_fault or crash.kind in _KINDS):
        return
    start = fault_start(crashed, crash.kind)
    if crash.kind is FaultKind.RERAISED and start == 0:
        return
    index = caller(crashed, start)
    if index is None or owner(crashed.frames[index], crash.process) is not Owner.EXTENSION:
        return
    frame = crashed.frames[index]
    if not frame.module or not _is_python(crash.process, crashed):
        return
    distance = index - start
    name = module_name(frame.module)
    of = package(frame.module)
    belongs = f" of the package {of}" if of and of not in name else ""
    function = "" if frame.function == "??" else f", in {short(frame.function, 40)}"
    module = modules.at(frame.pc) if frame.pc is not None else None
    unlike = module is not None and module.status == "mismatch"
    yield Finding(
        title=f"the crash is in {name}{belongs}{function}",
        cause=f"the innermost code outside the C library is {name}{belongs}, which is neither "
        "CPython, PyTorch nor CUDA: a bug there, or bad data that it was given"
        + (
            "; the file on disk is another build, so names of its functions may be wrong"
            if unlike
            else ""
        ),
        confidence=Confidence.LIKELY if distance <= 2 and not unlike else Confidence.POSSIBLE,
        next_steps=(
            f"look at {short(frame.function) if function else name} with the arguments that it was "
            "given; build it with -g -O1 for line numbers"
            if not of
            else f"pip show {shell_word(_DISTRIBUTIONS.get(of, of))} : is it the newest version, "
            "built for this Python and PyTorch?",
            "run that module's small test under AddressSanitizer or valgrind",
        ),
        evidence=(crash.cited, *crash.frame(index)),
    )


def _is_python(process: Process, thread: Thread) -> bool:
    """Return whether the process is an interpreter: elsewhere every library is the program's."""
    if any(owner(f) is Owner.CPYTHON or package(f.module or "") for f in thread.frames):
        return True
    names = (process.executable or "", process.command or "", *process.argv[:1])
    return process.python_version is not None or any(
        file_name(name).startswith(("python", "pypy", "pt_main")) for name in names
    )
