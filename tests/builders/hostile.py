"""Small inputs that once took gigabytes or minutes; of any size, so that growth can be measured.

Each function writes its evidence into a folder and returns the words of the command that reads it.
"""

import bz2
import gzip
import importlib
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from builders import elf

Maker = Callable[[Path, int], list[str]]


def large_rank(folder: Path, size: int) -> list[str]:
    """One line of a rank with a large number."""
    path = folder / "job.log"
    path.write_text(f"[rank{size}]: x\n")
    return ["logs", str(path)]


def dated(folder: Path, size: int) -> list[str]:
    """Lines that begin with a date in brackets, as many programs write them."""
    path = folder / "job.log"
    path.write_text("".join(f"[20251122] step {i} loss 2.{i}\n" for i in range(size)))
    return ["logs", str(path)]


def dated_failure(folder: Path, size: int) -> list[str]:
    """Dated lines around a traceback."""
    path = folder / "job.log"
    lines = [f"[20251122] step {i} loss 2.{i}" for i in range(size)]
    lines += ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()"]
    path.write_text("\n".join([*lines, "ValueError: bad batch", ""]))
    return ["logs", str(path)]


def real_ranks(folder: Path, size: int) -> list[str]:
    """A log with a line of each rank, one of which fails."""
    path = folder / "job.log"
    with path.open("w") as out:
        out.writelines(f"[rank{rank}]: step 1 of world_size={size}\n" for rank in range(size))
        out.write("[rank5]: Traceback (most recent call last):\n")
        out.write('[rank5]:   File "a.py", line 3, in f\n[rank5]:     g()\n')
        out.write("[rank5]: ValueError: bad batch\n")
    return ["logs", str(path)]


def waiting_ranks(folder: Path, size: int) -> list[str]:
    """A few ranks that wait for their peers, in a job that says it has `size` of them."""
    path = folder / "job.log"
    with path.open("w") as out:
        out.write(f"[rank0]: world_size={size}\n")
        for rank in range(3):
            out.write(f"[rank{rank}]: Traceback (most recent call last):\n")
            out.write(f'[rank{rank}]:   File "a.py", line 3, in f\n[rank{rank}]:     g()\n')
            words = "Timed out waiting 1800000ms for recv operation to complete"
            out.write(f"[rank{rank}]: RuntimeError: [gloo/transport/tcp/pair.cc:1] {words}\n")
    return ["logs", str(path)]


def one_traceback_often(folder: Path, size: int) -> list[str]:
    """A job that tries again and fails in the same way each time."""
    path = folder / "job.log"
    lines = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()"]
    path.write_text("\n".join([*lines, "ValueError: bad batch", "trying again", ""]) * size)
    return ["logs", str(path)]


def ranks_traceback_often(folder: Path, size: int) -> list[str]:
    """The same, of eight ranks with prefixes."""
    path = folder / "job.log"
    lines = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()"]
    lines += ["ValueError: bad batch", "trying again"]
    with path.open("w") as out:
        for turn in range(size):
            out.writelines(f"[rank{turn % 8}]: {line}\n" for line in lines)
    return ["logs", str(path)]


def chained_tracebacks(folder: Path, size: int) -> list[str]:
    """One traceback after another, each raised from the one before."""
    path = folder / "job.log"
    one = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n'
    joint = "The above exception was the direct cause of the following exception:"
    with path.open("w") as out:
        for turn in range(size):
            out.write(f"{one}ValueError: bad batch {turn}\n\n{joint}\n\n")
        out.write(f"{one}RuntimeError: the last\n")
    return ["logs", str(path)]


def one_left_open(folder: Path, size: int) -> list[str]:
    """The same behind a traceback that has no end."""
    words = one_traceback_often(folder, size)
    path = folder / "job.log"
    cut = 'Traceback (most recent call last):\n  File "b.py", line 1, in h\n    k()\n'
    path.write_text(cut + path.read_text())
    return words


def alike_in_a_chain(folder: Path, size: int) -> list[str]:
    """Exceptions with the same words, each raised from the one before."""
    path = folder / "job.log"
    one = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n'
    joint = "The above exception was the direct cause of the following exception:"
    path.write_text(f"{one}ValueError: bad batch\n\n{joint}\n\n" * size + one + "ValueError: x\n")
    return ["logs", str(path)]


def packed_line_ends(folder: Path, size: int) -> list[str]:
    """Nothing but line ends, packed a thousand times smaller."""
    path = folder / "job.log.gz"
    path.write_bytes(gzip.compress(b"\n" * size))
    return ["logs", str(path)]


def packed_line_ends_strace(folder: Path, size: int) -> list[str]:
    """The same for strace."""
    path = folder / "job.strace.gz"
    path.write_bytes(gzip.compress(b"\n" * size))
    return ["strace", str(path)]


def packed_line_ends_bzip2(folder: Path, size: int) -> list[str]:
    """The same in a folder, packed with another packer."""
    path = folder / "job.log.bz2"
    path.write_bytes(bz2.compress(b"\n" * size))
    return ["logs", str(folder)]


def _zstd_file(path: Path, line: bytes, size: int, first: bytes = b"") -> None:
    """Write `size` copies of a line, packed."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    packer = importlib.import_module(name).ZstdCompressor()
    at_once = 100_000
    with path.open("wb") as out:
        out.write(packer.compress(first))
        for done in range(0, size, at_once):
            out.write(packer.compress(line * min(at_once, size - done)))
        out.write(packer.flush())


def packed_line_ends_zstd(folder: Path, size: int) -> list[str]:
    """The same, with a packer that makes 13 kB of 400 MB."""
    _zstd_file(folder / "job.log.zst", b"\n", size)
    return ["logs", str(folder / "job.log.zst")]


def packed_line_ends_zstd_strace(folder: Path, size: int) -> list[str]:
    """The same for strace."""
    _zstd_file(folder / "job.strace.zst", b"\n", size, first=b"7 getpid() = 7\n" * 3)
    return ["strace", str(folder / "job.strace.zst")]


def packed_copies(folder: Path, size: int) -> list[str]:
    """One line of a rank, again and again."""
    _zstd_file(folder / "job.log.zst", b"[rank0]: step\n", size)
    return ["logs", str(folder / "job.log.zst")]


def packed_copies_strace(folder: Path, size: int) -> list[str]:
    """Some calls, and a line that is none, again and again."""
    call = b"7 getpid() = 7\n" * 3
    _zstd_file(folder / "job.strace.zst", b"a\r\n", size, first=call)
    return ["strace", str(folder / "job.strace.zst")]


def nested_names(folder: Path, size: int) -> list[str]:
    """A pickle whose name of a class is `size` lists in lists, each with the same one twice."""
    path = folder / "model.pt"
    doubled = b"]" + b"".join(b"q%c]h%ch%c\x86a" % (i, i, i) for i in range(size))
    path.write_bytes(b"\x80\x04\x8c\x01m" + doubled + b"\x93.")
    return ["scan", str(path)]


def nested_keys(folder: Path, size: int) -> list[str]:
    """A pickle of storages whose key is lists in lists."""
    path = folder / "model.pt"
    doubled = b"]" + b"".join(b"q%c]h%ch%c\x86a" % (i, i, i) for i in range(size))
    path.write_bytes(b"\x80\x04(\x8c\x07storageN" + doubled + b"\x8c\x03cpuK\x04tQ.")
    return ["scan", str(path)]


def copied_lists(folder: Path, size: int) -> list[str]:
    """A pickle of one list of 100,000, and of copies of it, five bytes each."""
    path = folder / "model.pt"
    one = b"](" + b"N" * 100_000 + b"e\x94"
    named = b"c__builtin__\nlist\n".replace(b"__builtin__", b"builtins") + b"\x940"
    path.write_bytes(b"\x80\x04(" + one + named + b"h\x01h\x00\x85R" * size + b"l.")
    return ["scan", str(path)]


def deep_pickle(folder: Path, size: int) -> list[str]:
    """Lists in lists, `size` deep, around a number."""
    path = folder / "model.pt"
    nan = b"G" + struct.pack(">d", float("nan"))
    path.write_bytes(b"\x80\x04" + b"]" * size + nan + b"a" * size + b".")
    return ["scan", str(path)]


def deep_pickle_of_numbers(folder: Path, size: int) -> list[str]:
    """Lists in lists with a NaN in each."""
    path = folder / "model.pt"
    nan = b"G" + struct.pack(">d", float("nan"))
    path.write_bytes(b"\x80\x04" + (b"]" + nan + b"a") * size + b"a" * (size - 1) + b".")
    return ["scan", str(path)]


def endless_index(folder: Path, _size: int) -> list[str]:
    """An index that is a link to a device without an end."""
    (folder / "model.safetensors.index.json").symlink_to("/dev/zero")
    return ["scan", str(folder / "model.safetensors.index.json")]


def endless_index_beside(folder: Path, _size: int) -> list[str]:
    """The same beside a shard that is asked for."""
    endless_index(folder, 0)
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (folder / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    return ["scan", str(folder)]


def chained_openat(folder: Path, size: int) -> list[str]:
    """Each directory opened below the one before."""
    path = folder / "job.strace"
    with path.open("w") as out:
        out.write('100 openat(AT_FDCWD, "/data", O_RDONLY|O_DIRECTORY) = 3\n')
        for number in range(3, 3 + size):
            out.write(f'100 openat({number}, "step{number % 10}", O_RDONLY|O_DIRECTORY)')
            out.write(f" = {number + 1}\n")
        out.write(f'100 write({size + 3}, "x", 1) = -1 ENOSPC (No space left on device)\n')
    return ["strace", str(path)]


def chained_chdir(folder: Path, size: int) -> list[str]:
    """The same, into each of them."""
    path = folder / "job.strace"
    with path.open("w") as out:
        for number in range(size):
            out.write(f'100 chdir("step{number % 10}") = 0\n')
            out.write(f'100 openat(AT_FDCWD, "f", O_RDONLY) = {number + 3}\n')
        out.write('100 write(3, "x", 1) = -1 ENOSPC (No space left on device)\n')
    return ["strace", str(path)]


def chained_chdir_forks(folder: Path, size: int) -> list[str]:
    """Children of children, each in a folder below its parent's."""
    path = folder / "job.strace"
    with path.open("w") as out:
        for number in range(100, 100 + size):
            out.write(f'{number} chdir("step{number % 10}") = 0\n')
            out.write(f"{number} fork() = {number + 1}\n")
        out.write(f'{number} openat(AT_FDCWD, "f", O_RDONLY) = -1 ENOSPC (No space left)\n')
    return ["strace", str(path)]


def many_forks(folder: Path, size: int) -> list[str]:
    """A process with many descriptors and as many children, which all live."""
    path = folder / "job.strace"
    with path.open("w") as out:
        for number in range(3, 3 + size):
            out.write(f'100 openat(AT_FDCWD, "/data/part", O_RDONLY) = {number}\n')
        for number in range(101, 101 + size):
            out.write(f"100 fork() = {number}\n")
            out.write(f"{number} close(3) = 0\n")
    return ["strace", str(path)]


def many_mappings(folder: Path, size: int) -> list[str]:
    """The same of file mappings."""
    path = folder / "job.strace"
    with path.open("w") as out:
        out.write('100 openat(AT_FDCWD, "/data/part", O_RDONLY) = 3\n')
        for number in range(size):
            at = 0x700000000000 + 0x2000 * number
            out.write(f"100 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0) = {at:#x}\n")
        for number in range(101, 101 + size):
            out.write(f"100 fork() = {number}\n")
            out.write(f"{number} munmap(0x700000000000, 4096) = 0\n")
    return ["strace", str(path)]


def high_numbers(folder: Path, size: int) -> list[str]:
    """Processes that each have one descriptor with a large number."""
    path = folder / "job.strace"
    with path.open("w") as out:
        for number in range(100, 100 + size):
            out.write(f"{number} dup2(1, 1048000) = 1048000\n")
    return ["strace", str(path)]


def unfinished_reads(folder: Path, size: int) -> list[str]:
    """Processes of which the log has the beginning of one read."""
    path = folder / "job.strace"
    with path.open("w") as out:
        out.writelines(f"{pid} read(3,  <unfinished ...>\n" for pid in range(100, 100 + size))
    return ["strace", str(path)]


def begun_forks(folder: Path, size: int) -> list[str]:
    """Forks that have begun, and as many processes that show up."""
    path = folder / "job.strace"
    with path.open("w") as out:
        out.writelines(f"{pid} fork( <unfinished ...>\n" for pid in range(100, 100 + size))
        out.writelines(f"{pid} getuid() = 0\n" for pid in range(1_000_000, 1_000_000 + size))
    return ["strace", str(path)]


def many_ranks(folder: Path, size: int) -> list[str]:
    """Ranks with a line each, one of them an error."""
    path = folder / "job.log"
    with path.open("w") as out:
        out.writelines(f"[rank{rank}]: step 3 loss 0.5\n" for rank in range(1, size))
        out.write("[rank0]: RuntimeError: loss is bad\n")
    return ["logs", str(path)]


def kills(folder: Path, size: int) -> list[str]:
    """A process that signals others, which die of it."""
    path = folder / "job.strace"
    with path.open("w") as out:
        out.writelines(f"100 kill({pid}, SIGTERM) = 0\n" for pid in range(101, 101 + size))
        for pid in range(101, 101 + size):
            line = f"{pid} --- SIGTERM {{si_signo=SIGTERM, si_code=SI_USER, si_pid=100, si_uid=0}}"
            out.write(f"{line} ---\n{pid} +++ killed by SIGTERM +++\n")
    return ["strace", str(path)]


def kills_alone(folder: Path, size: int) -> list[str]:
    """A process that signals others, of which the log has nothing else."""
    path = folder / "job.strace"
    with path.open("w") as out:
        out.writelines(f"100 kill({pid}, SIGTERM) = 0\n" for pid in range(101, 101 + size))
    return ["strace", str(path)]


def libc_often(folder: Path, size: int) -> list[str]:
    """A core whose list of files names one library many times, each with a thread in it."""
    library = Path("/lib/x86_64-linux-gnu/libc.so.6")
    path = folder / "core"
    head, name = library.read_bytes()[:0x1000], str(library).encode()
    starts = range(0x7F0000000000, 0x7F0000000000 + size * 0x100000, 0x100000)

    def built(offset: int) -> bytes:
        core = elf.CoreBuilder()
        core.thread(1000, 11, pc=starts[0] + 0x200, sp=0x7FFC00000100)
        for thread in range(1, min(size, 2000)):
            core.thread(1000 + thread, pc=starts[thread] + 0x200, sp=0x7FFC00000100)
        core.process(args=b"prog").siginfo(11, 1, address=0x10)
        core.files([(start, start + 0x1000, 0, name) for start in starts])
        core.segment(starts[0], head, elf.PF_R | elf.PF_X, memsz=0x1000)
        for start in starts[1:]:  # all of them the same page of the core, with a build ID in it
            core.segment(
                start, b"", elf.PF_R | elf.PF_X, filesz=0x1000, memsz=0x1000, offset=offset
            )
        core.segment(0x7FFC00000000, b"stack" * 100, elf.PF_R | elf.PF_W, memsz=0x2000)
        return core.build()

    path.write_bytes(built(built(0).index(head)))
    return ["core", str(path), "--engine", "native"]


def nul_hole(folder: Path, size: int) -> list[str]:
    """A log that was cut to nothing while its writer kept its place: a hole, then text."""
    path = folder / "rank0.log"
    with path.open("wb") as out:
        out.seek(size)
        out.write(b"Traceback (most recent call last):\n")
        out.write(b'  File "a.py", line 3, in f\n    g()\nValueError: bad batch\n')
    (folder / "rank1.log").write_text("step 1\nstep 2\n")
    return ["logs", str(folder)]


INPUTS: dict[str, tuple[Maker, int]] = {
    "rank100000000": (large_rank, 100_000_000),
    "rank9999999": (large_rank, 9_999_999),
    "dated": (dated, 1),
    "dated 50": (dated, 50),
    "dated failure": (dated_failure, 50),
    "65,536 ranks": (real_ranks, 65_536),
    "world of 10,000,000": (waiting_ranks, 10_000_000),
    "one traceback often": (one_traceback_often, 8_000),
    "ranks' traceback often": (ranks_traceback_often, 8_000),
    "one left open": (one_left_open, 8_000),
    "alike in a chain": (alike_in_a_chain, 16_000),
    "chained tracebacks": (chained_tracebacks, 16_000),
    "packed line ends": (packed_line_ends, 36_000_000),
    "packed line ends, strace": (packed_line_ends_strace, 36_000_000),
    "packed line ends, bz2": (packed_line_ends_bzip2, 36_000_000),
    "packed line ends, zstd": (packed_line_ends_zstd, 400_000_000),
    "packed line ends, zstd, strace": (packed_line_ends_zstd_strace, 400_000_000),
    "packed copies": (packed_copies, 30_000_000),
    "packed copies, strace": (packed_copies_strace, 100_000_000),
    "nested names": (nested_names, 30),
    "nested keys": (nested_keys, 30),
    "copied lists": (copied_lists, 100_000),
    "deep pickle": (deep_pickle, 512_000),
    "deep pickle of numbers": (deep_pickle_of_numbers, 256_000),
    "endless index": (endless_index, 0),
    "endless index beside": (endless_index_beside, 0),
    "chained openat": (chained_openat, 72_000),
    "chained chdir": (chained_chdir, 40_000),
    "chained chdir, forks": (chained_chdir_forks, 20_000),
    "many forks": (many_forks, 30_000),
    "many mappings": (many_mappings, 10_000),
    "high numbers": (high_numbers, 1_000),
    "unfinished reads": (unfinished_reads, 90_000),
    "begun forks": (begun_forks, 50_000),
    "kills": (kills, 20_000),
    "kills alone": (kills_alone, 20_000),
    "libc often": (libc_often, 30_000),
    "NUL hole": (nul_hole, 1 << 30),
}
"""By name, with the size that a review tried."""
