"""Small inputs that once took gigabytes or minutes; of any size, so that growth can be measured.

Each function writes its evidence into a folder and returns the words of the command that reads it.
"""

import bz2
import functools
import gzip
import importlib
import json
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from builders import elf

Maker = Callable[[Path, int], list[str]]
Parts = Callable[[int], Iterable[str | bytes]]


def written(command: str, name: str) -> Callable[[Parts], Maker]:
    """Return what makes of parts, of any number, a file for a command."""

    def of(parts: Parts) -> Maker:
        @functools.wraps(parts)
        def made(folder: Path, size: int) -> list[str]:
            path = folder / name
            with path.open("wb") as out:
                out.writelines(p.encode() if isinstance(p, str) else p for p in parts(size))
            return [command, str(path)]

        return made

    return of


log, strace, pickle = (
    written("logs", "job.log"),
    written("strace", "job.strace"),
    written("scan", "model.pt"),
)
_HEAD = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n'
_JOINT = "\nThe above exception was the direct cause of the following exception:\n\n"
_AGAIN = f"{_HEAD}ValueError: bad batch\ntrying again\n"
_NAN = b"G" + struct.pack(">d", float("nan"))


def _of_rank(rank: int, text: str) -> Iterator[str]:
    return (f"[rank{rank}]: {line}\n" for line in text.splitlines())


@log
def large_rank(size: int) -> Iterator[str]:
    """One line of a rank with a large number."""
    yield f"[rank{size}]: x\n"


@log
def dated(size: int) -> Iterator[str]:
    """Lines that begin with a date in brackets, as many programs write them."""
    return (f"[20251122] step {i} loss 2.{i}\n" for i in range(size))


@log
def dated_failure(size: int) -> Iterator[str]:
    """Dated lines around a traceback."""
    yield from (f"[20251122] step {i} loss 2.{i}\n" for i in range(size))
    yield f"{_HEAD}ValueError: bad batch\n"


@log
def real_ranks(size: int) -> Iterator[str]:
    """A log with a line of each rank, one of which fails."""
    yield from (f"[rank{rank}]: step 1 of world_size={size}\n" for rank in range(size))
    yield from _of_rank(5, f"{_HEAD}ValueError: bad batch")


@log
def waiting_ranks(size: int) -> Iterator[str]:
    """A few ranks that wait for their peers, in a job that says it has `size` of them."""
    yield f"[rank0]: world_size={size}\n"
    words = "Timed out waiting 1800000ms for recv operation to complete"
    for rank in range(3):
        yield from _of_rank(rank, f"{_HEAD}RuntimeError: [gloo/transport/tcp/pair.cc:1] {words}")


@log
def one_traceback_often(size: int) -> list[str]:
    """A job that tries again and fails in the same way each time."""
    return [_AGAIN] * size


@log
def ranks_traceback_often(size: int) -> Iterator[str]:
    """The same, of eight ranks with prefixes."""
    return (line for turn in range(size) for line in _of_rank(turn % 8, _AGAIN))


@log
def chained_tracebacks(size: int) -> Iterator[str]:
    """One traceback after another, each raised from the one before."""
    yield from (f"{_HEAD}ValueError: bad batch {turn}\n{_JOINT}" for turn in range(size))
    yield f"{_HEAD}RuntimeError: the last\n"


@log
def one_left_open(size: int) -> list[str]:
    """One traceback often, behind one that has no end."""
    cut = 'Traceback (most recent call last):\n  File "b.py", line 1, in h\n    k()\n'
    return [cut, *[_AGAIN] * size]


@log
def alike_in_a_chain(size: int) -> list[str]:
    """Exceptions with the same words, each raised from the one before."""
    return [f"{_HEAD}ValueError: bad batch\n{_JOINT}" * size, f"{_HEAD}ValueError: x\n"]


@written("logs", "job.log.gz")
def packed_line_ends(size: int) -> list[bytes]:
    """Nothing but line ends, packed a thousand times smaller."""
    return [gzip.compress(b"\n" * size)]


@written("strace", "job.strace.gz")
def packed_line_ends_strace(size: int) -> list[bytes]:
    """The same for strace."""
    return [gzip.compress(b"\n" * size)]


def packed_line_ends_bzip2(folder: Path, size: int) -> list[str]:
    """The same in a folder, packed with another packer."""
    (folder / "job.log.bz2").write_bytes(bz2.compress(b"\n" * size))
    return ["logs", str(folder)]


def _zstd(line: bytes, size: int, first: bytes = b"") -> Iterator[bytes]:
    """Yield `size` copies of a line, packed."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    packer = importlib.import_module(name).ZstdCompressor()
    at_once = 100_000
    yield packer.compress(first)
    for done in range(0, size, at_once):
        yield packer.compress(line * min(at_once, size - done))
    yield packer.flush()


@written("logs", "job.log.zst")
def packed_line_ends_zstd(size: int) -> Iterator[bytes]:
    """The same, with a packer that makes 13 kB of 400 MB."""
    return _zstd(b"\n", size)


@written("strace", "job.strace.zst")
def packed_line_ends_zstd_strace(size: int) -> Iterator[bytes]:
    """The same for strace."""
    return _zstd(b"\n", size, first=b"7 getpid() = 7\n" * 3)


@written("logs", "job.log.zst")
def packed_copies(size: int) -> Iterator[bytes]:
    """One line of a rank, again and again."""
    return _zstd(b"[rank0]: step\n", size)


@written("strace", "job.strace.zst")
def packed_copies_strace(size: int) -> Iterator[bytes]:
    """Some calls, and a line that is none, again and again."""
    return _zstd(b"a\r\n", size, first=b"7 getpid() = 7\n" * 3)


def _doubled(size: int) -> bytes:
    return b"]" + b"".join(b"q%c]h%ch%c\x86a" % (i, i, i) for i in range(size))


@pickle
def nested_names(size: int) -> list[bytes]:
    """A pickle whose name of a class is `size` lists in lists, each with the same one twice."""
    return [b"\x80\x04\x8c\x01m", _doubled(size), b"\x93."]


@pickle
def nested_keys(size: int) -> list[bytes]:
    """A pickle of storages whose key is lists in lists."""
    return [b"\x80\x04(\x8c\x07storageN", _doubled(size), b"\x8c\x03cpuK\x04tQ."]


@pickle
def copied_lists(size: int) -> list[bytes]:
    """A pickle of one list of 100,000, and of copies of it, five bytes each."""
    one = b"](" + b"N" * 100_000 + b"e\x94"
    named = b"c__builtin__\nlist\n".replace(b"__builtin__", b"builtins") + b"\x940"
    return [b"\x80\x04(", one, named, b"h\x01h\x00\x85R" * size, b"l."]


@pickle
def deep_pickle(size: int) -> list[bytes]:
    """Lists in lists, `size` deep, around a number."""
    return [b"\x80\x04", b"]" * size, _NAN, b"a" * size, b"."]


@pickle
def deep_pickle_of_numbers(size: int) -> list[bytes]:
    """Lists in lists with a NaN in each."""
    return [b"\x80\x04", (b"]" + _NAN + b"a") * size, b"a" * (size - 1), b"."]


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


@strace
def chained_openat(size: int) -> Iterator[str]:
    """Each directory opened below the one before."""
    yield '100 openat(AT_FDCWD, "/data", O_RDONLY|O_DIRECTORY) = 3\n'
    for number in range(3, 3 + size):
        yield f'100 openat({number}, "step{number % 10}", O_RDONLY|O_DIRECTORY)'
        yield f" = {number + 1}\n"
    yield f'100 write({size + 3}, "x", 1) = -1 ENOSPC (No space left on device)\n'


@strace
def chained_chdir(size: int) -> Iterator[str]:
    """The same, into each of them."""
    for number in range(size):
        yield f'100 chdir("step{number % 10}") = 0\n'
        yield f'100 openat(AT_FDCWD, "f", O_RDONLY) = {number + 3}\n'
    yield '100 write(3, "x", 1) = -1 ENOSPC (No space left on device)\n'


@strace
def chained_chdir_forks(size: int) -> Iterator[str]:
    """Children of children, each in a folder below its parent's."""
    for number in range(100, 100 + size):
        yield f'{number} chdir("step{number % 10}") = 0\n'
        yield f"{number} fork() = {number + 1}\n"
    yield f'{number} openat(AT_FDCWD, "f", O_RDONLY) = -1 ENOSPC (No space left)\n'


@strace
def many_forks(size: int) -> Iterator[str]:
    """A process with many descriptors and as many children, which all live."""
    for number in range(3, 3 + size):
        yield f'100 openat(AT_FDCWD, "/data/part", O_RDONLY) = {number}\n'
    for number in range(101, 101 + size):
        yield f"100 fork() = {number}\n"
        yield f"{number} close(3) = 0\n"


@strace
def many_mappings(size: int) -> Iterator[str]:
    """The same of file mappings."""
    yield '100 openat(AT_FDCWD, "/data/part", O_RDONLY) = 3\n'
    for number in range(size):
        at = 0x700000000000 + 0x2000 * number
        yield f"100 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0) = {at:#x}\n"
    for number in range(101, 101 + size):
        yield f"100 fork() = {number}\n"
        yield f"{number} munmap(0x700000000000, 4096) = 0\n"


@strace
def high_numbers(size: int) -> Iterator[str]:
    """Processes that each have one descriptor with a large number."""
    for number in range(100, 100 + size):
        yield f"{number} dup2(1, 1048000) = 1048000\n"


@strace
def unfinished_reads(size: int) -> Iterator[str]:
    """Processes of which the log has the beginning of one read."""
    yield from (f"{pid} read(3,  <unfinished ...>\n" for pid in range(100, 100 + size))


@strace
def begun_forks(size: int) -> Iterator[str]:
    """Forks that have begun, and as many processes that show up."""
    yield from (f"{pid} fork( <unfinished ...>\n" for pid in range(100, 100 + size))
    yield from (f"{pid} getuid() = 0\n" for pid in range(1_000_000, 1_000_000 + size))


@log
def many_ranks(size: int) -> Iterator[str]:
    """Ranks with a line each, one of them an error."""
    yield from (f"[rank{rank}]: step 3 loss 0.5\n" for rank in range(1, size))
    yield "[rank0]: RuntimeError: loss is bad\n"


@strace
def kills(size: int) -> Iterator[str]:
    """A process that signals others, which die of it."""
    yield from (f"100 kill({pid}, SIGTERM) = 0\n" for pid in range(101, 101 + size))
    for pid in range(101, 101 + size):
        line = f"{pid} --- SIGTERM {{si_signo=SIGTERM, si_code=SI_USER, si_pid=100, si_uid=0}}"
        yield f"{line} ---\n{pid} +++ killed by SIGTERM +++\n"


@strace
def kills_alone(size: int) -> Iterator[str]:
    """A process that signals others, of which the log has nothing else."""
    yield from (f"100 kill({pid}, SIGTERM) = 0\n" for pid in range(101, 101 + size))


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
