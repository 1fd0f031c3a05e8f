"""Writes the seeds of the fuzz targets: make_seeds.py FOLDER gives a folder for each kind.

Run it with tests/ on PYTHONPATH; the builders there are the source of the seeds. Those with DWARF
are compiled here, if there is a compiler.
"""

from __future__ import annotations

import pickle
import pickletools
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from builders import cubins, cudacores, elf, ranklogs, strace, unwind_cores, unwind_images


def module() -> bytes:
    """Return a shared object with all that the image reader looks at."""
    return elf.ElfBuilder(
        build_id=bytes(range(20)),
        symbols={b"answer": 0x200, b"environ": 0x208},
        sections={b".eh_frame": bytes(16), b".debug_line": b"x" * 8},
    ).build()


def cores() -> dict[str, bytes]:
    """Return one core for each way of writing them."""
    library = module()
    base = 0x7F0000000000

    def filled(**how: object) -> elf.CoreBuilder:
        core = elf.CoreBuilder(**how)  # type: ignore[arg-type]
        core.thread(1000, 11, pc=base + 0x200, sp=0x7FFC00000100).thread(1001, sp=0x7FFC00000200)
        core.process(args=b"prog --flag").siginfo(11, 1, address=0x10)
        core.auxv({elf.AT_PHDR: base + 64, elf.AT_ENTRY: base + 0x200})
        core.files([(base, base + 0x1000, 0, b"/opt/lib/libanswer.so")])
        core.segment(base, library, elf.PF_R | elf.PF_X, memsz=0x1000)
        return core.segment(0x7FFC00000000, b"stack" * 100, elf.PF_R | elf.PF_W, memsz=0x2000)

    def by_loader(**how: object) -> elf.CoreBuilder:
        """Return a core without NT_FILE: program headers, link map and paths lie in memory."""
        start, data = 0x400000, 0x601000
        headers = (
            elf.program_header(3, elf.PF_R, 232, start + 232, 16, 16)  # PT_INTERP
            + elf.program_header(elf.PT_LOAD, elf.PF_R | elf.PF_X, 0, start, 0x1000, 0x1000)
            + elf.program_header(elf.PT_LOAD, elf.PF_R | elf.PF_W, 0, data, 0x1000, 0x1000)
        )
        headers += elf.program_header(elf.PT_DYNAMIC, elf.PF_R, 0, data, 48, 48)
        image = elf.elf_header(type=elf.ET_EXEC, phnum=4, entry=start + 0x200) + headers
        memory = struct.pack("<6Q", 21, data + 64, 0, 0, 0, 0).ljust(64, b"\0")
        memory += struct.pack("<5Q", 1, data + 128, 0, 0, 0).ljust(64, b"\0")
        memory += struct.pack("<5Q", 0, data + 256, data, data + 192, 0).ljust(64, b"\0")
        memory += struct.pack("<5Q", base, data + 256, base + 0x300, 0, data + 128).ljust(64, b"\0")
        memory += b"/opt/lib/libanswer.so\0"
        core = elf.CoreBuilder(**how)  # type: ignore[arg-type]
        core.thread(1000, 11, pc=start + 0x200, sp=0x7FFC00000100).process(args=b"prog")
        if not how.get("gcore"):
            core.auxv({elf.AT_PHDR: start + 64, 5: 4, elf.AT_ENTRY: start + 0x200})
        core.segment(start, image, elf.PF_R | elf.PF_X, memsz=0x1000)
        core.segment(data, memory, elf.PF_R | elf.PF_W, memsz=0x1000)
        core.segment(base, library, elf.PF_R | elf.PF_X, memsz=0x1000)
        return core.segment(0x7FFC00000000, b"stack" * 100, elf.PF_R | elf.PF_W, memsz=0x2000)

    # The note of a slim core (csrc/elfcore/slim_note.h), whose original had both segments whole.
    rows = [(base, 0x1000, 5), (0x7FFC00000000, 0x2000, 6)]
    slim = struct.pack("<IIQQQQQ", 1, 0, 1 << 20, 1 << 20, 0, len(rows), 1)
    slim += b"".join(struct.pack("<5Q", at, size, size, size, flags) for at, size, flags in rows)
    slim += struct.pack("<i16s", 1000, b"prog")

    return {
        "slim": filled().raw_note(elf.note(b"postmortem\0", 0x4D494C53, slim)).build(),
        "kernel": filled().build(),
        "gcore": filled(gcore=True).build(),
        "aarch64": filled(machine=elf.EM_AARCH64).build(),
        "xnum": filled(xnum=True).build(),
        "loader": by_loader().build(),
        "valgrind": by_loader(gcore=True).build(),
        "gdb7": elf.CoreBuilder(gcore=True)
        .process()
        .thread(1000, 11, info=(19, 0, 0))
        .thread(1001, 11, info=(11, 1, 0x10))
        .auxv({elf.AT_PHDR: base - 0x200FC0, elf.AT_ENTRY: base - 0x200E00})
        .files([(base, base + 0x1000, 0x1000, b"/opt/lib/libanswer.so")])
        .segment(base, library, elf.PF_R | elf.PF_W)
        .build(),
        "netbsd": elf.CoreBuilder().raw_note(elf.note(b"NetBSD-CORE\0", 1, bytes(160))).build(),
        "overlap": filled().segment(base + 0x800, b"y" * 64, memsz=0x1000).build(),
    }


PROGRAM = """
static inline __attribute__((always_inline)) int inner(int x) { return x * 3 + 1; }
static inline __attribute__((always_inline)) int outer(int x) { return inner(x) - inner(x + 2); }
int work(int *p) { *p = outer(*p); return *p; }
int more(int *p) { for (int i = 0; i < *p; i++) work(p); return inner(*p); }
"""


def with_lines() -> dict[str, bytes]:
    """Return small libraries with each version of DWARF, packed and not."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return {}
    found = {}
    for version in (2, 3, 4, 5):
        for packed in ("none", "zlib"):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder, "seed.so")
                flags = f"-O2 -gdwarf-{version} -gz={packed} -shared -nostdlib -fPIC -Wl,-z,norelro"
                subprocess.run(
                    [compiler, *flags.split(), "-x", "c", "-", "-o", str(out)],
                    input=PROGRAM.encode(),
                    check=True,
                )
                found[f"dwarf{version}-{packed}"] = out.read_bytes()
    return found


def recorder_dumps() -> dict[str, bytes]:
    """Return small dumps of the flight recorder in each protocol, also without a memo."""
    frame = {"name": "step", "filename": "/job/train.py", "line": 31}
    entry = {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 7,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[4, 2]],
        "input_dtypes": ["Float"],
        "state": "started",
        "retired": False,
        "is_p2p": False,
        "frames": [frame, frame],
        "time_created_ns": 1 << 60,
        "time_discovered_started_ns": None,
        "timeout_ms": 600_000,
        "pg_id": 3,
    }
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}, "1": {"ranks": [1, 0]}}
    counters = {
        "last_enqueued_collective": 7,
        "last_started_collective": -1,
        "last_completed_collective": 6,
    }
    dump = {
        "version": "2.10",
        "pg_config": groups,
        "pg_status": {"3": counters, "-1": {}},
        "entries": [entry, dict(entry)],
    }
    seeds = {f"protocol{n}": pickle.dumps(dump, protocol=n) for n in range(2, 6)}
    return seeds | {"plain": pickletools.optimize(seeds["protocol2"])}


def rank_logs() -> dict[str, bytes]:
    """Return logs of four ranks in every launcher's form, behind the byte that says how to read."""
    traceback = [
        "Traceback (most recent call last):",
        '  File "train.py", line 31, in step',
        "ValueError: bad",
    ]
    texts = [[f"step {i}", *traceback] for i in range(4)]
    channel = "node1:4711:4802 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA"
    trail = "node1:4711:4802 [0] NCCL INFO transport/net_ib.cc:1295 -> 6"
    tags = "[1,0]<stdout>:step 0[1,0]<stdout>:\n[1,0]<stdout>:step 1[1,1]<stdout>:step 1\n"
    ended = (
        "E1121 17:08:48.797 9 api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 7) of binary"
    )
    others = "\n".join([channel, trail, tags, ended, "[rank0]: again", "#0  0x1 in f ()"])
    kept = ["traceback Traceback (", "link NCCL INFO Channel ", "trail .cc:", "mark failed ("]
    keep = "\n".join([*kept, "frames #0  0x", "", ""]).encode()
    return {"nccl": b"\x11" + keep + others.encode()} | {
        f"form{index}": bytes([index * 17 % 256])
        + keep
        + ranklogs.mixed(texts, form, per_host=2, seed=index).encode()
        for index, form in enumerate(ranklogs.FORMS)
    }


def logs() -> dict[str, bytes]:
    """Return logs in several formats; the first byte chooses what the target does with the rest."""
    forms = [
        strace.Format(),
        strace.Format(pids="bracket", times="tt", durations=True),
        strace.Format(times="ttt", annotations=True),
        strace.Format(names=True, instruction=True),
    ]
    return {
        f"log{index}": bytes([index * 67]) + "\n".join(strace.write_log(index, form).lines).encode()
        for index, form in enumerate(forms)
    }


def signatures() -> dict[str, bytes]:
    """Return patterns, each with lines that it matches, and lines of the patterns that ship."""
    patterns = {
        "groups": (r"(?P<a>\w+)(?:x|yy)? text{2,3}$", "0 yy texttt\r\nxtextt\n"),
        "lazy": (r"[^)\]]+?known|\bother \S*", "a)bknown\nan other z\n"),
    }
    shipped = (
        "pair.cc:1] Connection closed by peer [::1]:77\n../a/Loss.cu:1: f: block: [0,0,0], "
        "thread: [5,0,0] Assertion `x < y` failed.\nx NCCL INFO proxy.cc:679 -> 6\nfile too short\n"
    )
    return {
        name: f"{pattern}\n{text}{shipped}".encode() for name, (pattern, text) in patterns.items()
    }


def live() -> dict[str, bytes]:
    """Return texts of /proc/PID/maps, with bytes for registers behind them."""
    maps = (
        "55d0a0000000-55d0a0001000 r--p 00000000 fe:00 1234   /usr/bin/python3.11\n"
        "55d0a0001000-55d0a0002000 r-xp 00001000 fe:00 1234   /usr/bin/python3.11 (deleted)\n"
        "7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0 \n"
        "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0      [stack]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"
    )
    odd = (
        "10-8 rwxp 0 0 0 /x\n0-10 rw\n8-20 rw-p 0 0 0 /y\nfffffffffffff000-ffffffffffffffff r-xp 0"
    )
    return {"maps": maps.encode() + bytes(range(256)) * 3, "odd": odd.encode() + b"\0abcdefgh" * 9}


def cuda_cores() -> dict[str, bytes]:
    """Return dumps of a GPU as drivers of several versions write them, with every section."""
    cubin = cubins.Cubin()
    rows = [
        cubins.LineRow(0, 5),
        cubins.LineRow(0x40, 7),
        cubins.LineRow(0x50, 3, inlined_at=2, function="_Z4loadPi"),
    ]
    entry = cubin.kernel("_Z5scalePii", 0x100, rows)
    cubin.device_function("_Z6deeperPii", 0xC0, 0x40)

    def dump(driver: int, **more: bool) -> bytes:
        core = cudacores.CudaCore(driver, **more)  # type: ignore[arg-type]
        core.global_memory.append((0x7F0000000000, bytes(64)))
        core.managed_memory.append((0x7F0000001000, bytes(64)))
        device = core.device().context(0xC0DE, 4242).module(0x1234, cubin.build())
        device.grid(7, entry, (4, 1, 1), (64, 1, 1), params=bytes(16))
        processor = device.processor(3, exception=14, error_pc=entry + 0x50, detail="MMU fault")
        block = processor.block(7, (2, 0, 0), shared=bytes(64))
        warp = block.warp(error_pc=entry + 0x50, active=3, uniform=[1, 2, 3])
        more_of_it = {"registers": [1, 2, 3], "predicates": [0, 1], "local": (0xFFFC00, bytes(32))}
        warp.lane(0, (0, 0, 0), entry + 0x60, 14, calls=[entry + 0xD0], **more_of_it)
        warp.lane(1, (1, 0, 0), entry + 0x60)
        block.warp(1, broken=True).all_at(entry + 0xF0, first=(32, 0, 0), count=4)
        device.processor(4, exception=10, error_pc=entry)
        return core.build()

    state = struct.pack("<QIIQIIII", 1, 1, 18, 16, 1, 120, 1, 64) + bytes(16 + 120 + 64)
    notes = elf.note(b"AMDGPU\0", 33, state)
    amd = elf.elf_header(machine=224, phnum=1)
    amd += elf.program_header(elf.PT_NOTE, 0, 120, 0, len(notes), len(notes)) + notes

    return {
        "amd": amd,
        "r346": dump(346),
        "r555": dump(555),
        "r615": dump(615),
        "many": dump(615, many=True),
        "cubin": cubin.build(),
    }


def panics() -> dict[str, bytes]:
    """Return cores whose crashed thread stands in the end of a language's run-time."""
    code, stack, words = 0x7F0000000000, 0x7FFC00000000, 0x7FFD00000000
    names = {
        "go": "runtime.gopanic",
        "rust": "std::panicking::begin_panic_handler",
        "dotnet": "DispatchManagedException",
        "node": "v8::internal::Isolate::CreateMessageOrAbort",
    }
    image = unwind_images.ImageBuilder()
    image.function(0x1000, 0x80, b"\x0e\x50").function(0x1100, 0x80, b"\x07\x10")
    # A g (ends of its stack, _panic, m), the _panic's {type, data}, the type, and the text.
    g = [words + 16, 0, stack, stack + 4096, 0, 0, stack + 32, 0, words + 16, 0]
    type_and_text = [0, 0, 24 << 56, 0, words + 256, 8]
    memory = struct.pack("<16Q", *g, *type_and_text).ljust(256, b"\0") + b"too many open files"
    memory = memory.ljust(288, b"\0") + struct.pack("<QII", words + 1, 7, 19)
    memory += b"Uncaught Error: bad"
    # A System.Exception behind, whose message is a System.String: method table, length, UTF-16.
    thrown = [code, 0, words + 512, *[0] * 11, 0x80131500E0434352]
    memory = memory.ljust(384, b"\0") + struct.pack("<15Q", *thrown).ljust(128, b"\0")
    memory += struct.pack("<QI", code, 3) + "bad\0".encode("utf-16-le")
    # Of the frame: a _panic at 32, a String {capacity, pointer, length}, a return address.
    frame = [0, 0, 0, 0, 0, words + 80, words + 112, 64, words + 256, 8, code + 0x1110]
    frame += [words + 1, words + 384]
    said = "System.Exception: bad\n   at Job.Main()\0".encode("utf-16-le")
    said += b"load (job.js:1:8)\0"
    found = {}
    for seed, name in names.items():
        image.symbols = [(name, 0x1000, 0x80, 1, 2)]
        core = unwind_cores.CoreBuilder(auxv={33: code})
        core.thread(11, rip=code + 0x1004, rsp=stack + 8, fs_base=words + 8)
        data = struct.pack(f"<{len(frame)}Q", *frame) + said
        core.segments.append(unwind_cores.Segment(stack, data, size=len(data)))
        core.segments.append(unwind_cores.Segment(code, image.build(), 5))
        core.segments.append(unwind_cores.Segment(words, memory))
        found[seed] = core.build()
    return found | {"unwound": unwound(code, stack, words)}


def unwound(code: int, stack: int, words: int) -> bytes:
    """Return a core of Rust without names: a panic ended it while another one was unwound."""
    text = b"epoch 3 failed"
    # class, clean-up, the unwinder's own, canary, box; the String; the box's table of functions
    thrown = [int.from_bytes(b"MOZ\0RUST", "little"), code + 8, 0, 0, code + 64]
    thrown += [words + 56, words + 80, len(text), words + 104, len(text), 0, 24, 8]
    said = b"\nthread 'main' (7) panicked at src/main.rs:2:39:\nguard leaked\n\0"
    core = unwind_cores.CoreBuilder(auxv={3: code + 64})
    core.thread(11, 6, rip=code + 4, rsp=stack + 64).module("/app/reader", code, 4096)
    core.segments.append(unwind_cores.Segment(stack, bytes(64) + said.ljust(192, b"\0")))
    core.segments.append(unwind_cores.Segment(words, struct.pack("<13Q", *thrown) + text))
    return core.build()


def main(folder: Path) -> None:
    """Write all seeds under `folder`."""
    kinds = {
        "cudacore": cuda_cores(),
        "elfcore": cores(),
        "process": {"words": elf.last_words(b"free(): invalid pointer\n").build()},
        "image": {"shared": module()},
        "dwarf": with_lines(),
        "strace": logs(),
        "ranklogs": rank_logs(),
        "unwind": panics(),
        "live": live(),
        "flightrec": recorder_dumps(),
        "signatures": signatures(),
    }
    for name, rows in kinds.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for seed, data in rows.items():
            (folder / name / seed).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
