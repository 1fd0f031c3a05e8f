"""Native stacks in logs: one line of any of their forms to a frame."""

from collections.abc import Sequence

from postmortem.facts.rank_logs import NativeFrame
from postmortem.patterns import Pattern

MOST_FRAMES = 200
_LONGEST_NAME = 2000

# Each form as what writes it does. `fun`, `mod`, `src`, `at` are what it may have.
_FORMS = (
    # c10 (torch/csrc): "frame #1: f(int) + 0x57 (0x7f… in /lib/libc10.so)"
    Pattern(
        r"^frame #\d+: (?P<fun>.+?)(?: \+ 0x[0-9a-f]+)? \((?P<at>0x[0-9a-f]+) in (?P<mod>[^()]+)\)"
    ),
    # c10 with its symbolizer: "frame #1: f(int) from ??:0", "#1 f(int) from /src/a.cpp:12"
    Pattern(r"^(?:frame )?#\d+:? (?P<fun>.+?) from (?P<src>\S+:\d+)$"),
    # ASan, UBSan, TSan: "    #0 0x4c1 in main /src/a.cc:5:3", "    #1 0x7f (/lib/libc.so.6+0x29)"
    Pattern(r"^\s+#\d+ (?P<at>0x[0-9a-f]+) in (?P<fun>.+?) (?P<src>/\S+?:\d+)(?::\d+)?$"),
    Pattern(
        r"^\s+#\d+ (?P<at>0x[0-9a-f]+) (?:in (?P<fun>.+?) )? ?\((?P<mod>[^()+]+)\+0x[0-9a-f]+\)"
    ),
    # coredumpctl info: "                #0  0x00007f f (libfoo.so + 0x12c4)"
    Pattern(
        r"^\s+#\d+ +(?P<at>0x[0-9a-f]+) (?P<fun>\S+) \((?P<mod>[^()]+?)(?: \+ 0x[0-9a-f]+)?\)$"
    ),
    # macOS: "0   libomp.dylib                  \t0x00000001a1b2c3d4 f + 32"
    Pattern(r"^\d+ +(?P<mod>\S.*?) +\t? *(?P<at>0x[0-9a-f]+) (?P<fun>\S.*?)(?: \+ \d+)?$"),
    # Valgrind: "==71==    at 0x1A2B3C: fill_rows (rows.c:61)", "(in /usr/lib/libc.so.6)"
    Pattern(
        r"^==\d+==    (?:at|by) (?P<at>0x[0-9A-F]+): (?P<fun>\S.*?) "
        r"\((?:in (?P<mod>[^()]+)|(?P<src>[^()]+:\d+))\)$"
    ),
    # boost's stacktrace: " 2# ModelInstanceExecute in /opt/libtriton_onnxruntime.so"
    Pattern(r"^ *\d+# (?:(?P<at>0x[0-9A-F]{8,})|(?P<fun>\S.*?)) in (?P<mod>\S+)$"),
    # gdb: "#1  0x00007f in raise () from /lib/libc.so.6", "#2  main (argc=1) at a.c:12"
    Pattern(
        r"^#\d+ +(?:(?P<at>0x[0-9a-f]+) in )?(?P<fun>\S.*?) \(.*\)"
        r"(?: at (?P<src>\S+:\d+)| from (?P<mod>\S+))?$"
    ),
    # backtrace_symbols() of glibc, also behind Open MPI's "[node:pid] [ 3] "
    Pattern(
        r"^(?:\[[^\]]+\] )?(?:\[ *\d+\] )?(?P<mod>[^\s()\[\]]+)\((?P<fun>[^()+]*)"
        r"(?:\+0x[0-9a-f]+)?\) ?\[(?P<at>0x[0-9a-f]+)\]$"
    ),
    # glog and absl: "    @     0x7f12  f()", "PC: @     0x55  f()", with a frame's size between
    Pattern(r"^(?:PC:|\s+)\s*@ +(?P<at>0x[0-9a-f]+) +(?:\d+ +)?(?P<fun>\S.*)$"),
    # faulthandler of Python 3.14: '  Binary file "/usr/bin/python3", at f+0x31 [0x5555]'
    Pattern(
        r'^ +Binary file "(?P<mod>[^"]*)", at (?P<fun>[^+\[]*?)(?:\+0x[0-9a-f]+)?'
        r" \[(?P<at>0x[0-9a-f]+)\]$"
    ),
    # hs_err_pidPID.log: "V  [libjvm.so+0x1f]  f(int)+0x12", "j  Job.run(I)V+3 app.jar",
    # "J 23 c2 Job.step()V (12 bytes) @ 0x7f [0x7e+0x1f]", "v  ~StubRoutines::call_stub"
    Pattern(r"^[VC]  \[(?P<mod>[^\]+]+)\+0x[0-9a-f]+\](?:  (?P<fun>.+?)(?:\+0x[0-9a-f]+)?)?$"),
    Pattern(r"^(?:j  |J \d+%? (?:c[12] )?)(?P<fun>[^\s(]+\([^\s)]*\)[^\s+]+)(?:\+\d+| |$)"),
    Pattern(r"^v  ~(?P<fun>\S+)"),
)
_RUST = Pattern(r"^ +\d+: +(?:(?P<at>0x[0-9a-f]+) - )?(?P<fun>\S.*)$")
_RUST_AT = Pattern(r"^ +at (?P<src>\S+?:\d+)(?::\d+)?$")
_GFORTRAN = Pattern(r"^#\d+ +(?P<at>0x[0-9a-f]+) in (?P<fun>\S+)$")
_GFORTRAN_AT = Pattern(r"^\s+at (?P<src>\S+?:\d+)$")
_FIRST = ("frame #", "#", " ", "[", "/", ".", "PC:", "==", *"0123456789")
_OF_JVM = ("V  [", "C  [", "j  ", "J ", "v  ~")
_UNKNOWN = ("<unknown function>", "(unknown)", "<unknown>", "??", "???", "n/a", "")


def native_frame(text: str) -> NativeFrame | None:
    """Return the frame that a line is; None where it is none."""
    if not text.startswith((*_FIRST, *_OF_JVM)) and ")[0x" not in text:
        return None
    for form in _FORMS:
        found = form.match(text[:_LONGEST_NAME])
        if found:
            return _frame(found.groupdict())
    return None


def rust_frames(rows: list[str]) -> tuple[NativeFrame, ...]:
    """Return the frames below Rust's "stack backtrace:", the innermost first."""
    return _with_sources(rows, _RUST, _RUST_AT)[0]


def gfortran_frames(rows: list[str]) -> tuple[tuple[NativeFrame, ...], int]:
    """Return the frames of libgfortran, the innermost first, and how many rows they end behind."""
    return _with_sources(rows, _GFORTRAN, _GFORTRAN_AT)


def _with_sources(
    rows: list[str], frame: Pattern, at: Pattern
) -> tuple[tuple[NativeFrame, ...], int]:
    """Return frames whose source stands in the line below each, and where they end."""
    frames: list[NativeFrame] = []
    end = 0
    for i, text in enumerate(rows):
        found = frame.match(text)
        source = at.match(text)
        if source and frames:
            last = frames.pop()
            frames.append(_frame({"fun": last.function, "at": last.address, **source.groupdict()}))
        elif found and len(frames) < MOST_FRAMES:
            frames.append(_frame(found.groupdict()))
        elif frames and not source:
            break
        end = i + 1 if frames else 0
    return tuple(frames), end


def _frame(parts: dict[str, str | None]) -> NativeFrame:
    name = (parts.get("fun") or "").strip()
    file, _, line = (parts.get("src") or "").rpartition(":")
    known = file not in ("", "??")
    return NativeFrame(
        function="??" if name in _UNKNOWN else name,
        module=parts.get("mod"),
        file=file if known else None,
        line=int(line[:9]) if known and line.isdecimal() else None,
        address=parts.get("at"),
    )


def frames_behind(rows: Sequence[tuple[int, int, str]], at: int, gap: int = 8) -> tuple[int, int]:
    """Return where the frames behind row `at` begin and end; the same number where there are none.

    Up to `gap` lines of a message may stand between.
    """
    begin = at
    for i in range(at, min(at + gap, len(rows))):
        if native_frame(rows[i][2]) is not None:
            begin = i
            break
    else:
        return at, at
    end = begin
    while end < len(rows) and end - begin < MOST_FRAMES and native_frame(rows[end][2]) is not None:
        end += 1
    return begin, end


def native_below(
    rows: Sequence[tuple[int, int, str]], at: int
) -> tuple[tuple[NativeFrame, ...], list[str]]:
    """Return the C++ frames that PyTorch writes below an exception, and the lines of them.

    `at` is the index of the row behind the exception's last.

    TORCH_SHOW_CPP_STACKTRACES=1: "Exception raised from f at file:line (most recent call first):"
    (c10/util/Exception.cpp), part of the message.
    """
    begin, end = frames_behind(rows, at)
    if begin == end or not rows[begin][2].startswith(("frame #", "#0")):
        return (), []
    between = [row[2] for row in rows[at:begin]]
    if any("Traceback" in text or text.startswith("terminate called") for text in between):
        return (), []
    kept = [row[2] for row in rows[at:end]]
    frames = tuple(frame for row in rows[begin:end] if (frame := native_frame(row[2])) is not None)
    return frames, kept
