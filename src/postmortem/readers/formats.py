"""What kind of file this is, by its first bytes: a core, a packed core, or what else it is."""

import struct

from postmortem.errors import EvidenceError
from postmortem.records import record
from postmortem.text import shell_word

HEAD_BYTES = 64 << 10
"""How much of a file is looked at."""

ELF_MAGIC = b"\x7fELF"
ELF_HEADER_BYTES = 64
_ET_REL, _ET_EXEC, _ET_DYN, _ET_CORE = 1, 2, 3, 4
_PT_INTERP = 3
_MACHINES_READ = (62, 183)
_CUDA, _AMD_GPU = 190, 224

# elf.h; the ones that users of training machines may meet. 190 is what cuda-gdb writes.
_MACHINES = {
    2: "SPARC", 3: "i386", 4: "m68k", 8: "MIPS", 15: "PA-RISC", 20: "32-bit PowerPC", 21: "PowerPC",
    22: "s390x", 40: "32-bit ARM", 43: "SPARC", 62: "x86-64", 183: "aarch64", 190: "CUDA GPU",
    224: "AMD GPU", 243: "RISC-V", 258: "LoongArch", 0x9026: "Alpha",
}  # fmt: skip

_SKIPPABLE = b"\x2a\x4d\x18"
"""A skippable frame starts with any of 50..5f and then these; zstd and lz4 share them."""

_COMPRESSED = (
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"\x1f\x8b\x08", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
)


@record
class ElfHead:
    """The fields of an ELF header that decide whether we can read the file."""

    bits: int
    little_endian: bool
    type: int
    machine: int
    has_interpreter: bool
    """Has PT_INTERP: a program rather than a library."""

    @property
    def is_core(self) -> bool:
        """Whether it is a core file, of whatever machine."""
        return self.type == _ET_CORE

    @property
    def is_gpu_core(self) -> bool:
        """Whether it is a core dump of GPUs, of NVIDIA's or of AMD's."""
        ours = self.machine in (_CUDA, _AMD_GPU) and self.bits == 64 and self.little_endian
        return self.is_core and ours

    @property
    def is_amd(self) -> bool:
        """Whether it is of AMD's GPUs."""
        return self.machine == _AMD_GPU

    @property
    def machine_name(self) -> str:
        """Name of the processor."""
        return _MACHINES.get(self.machine, f"machine {self.machine} (e_machine in elf.h)")


def is_skippable(head: bytes) -> bool:
    """Return whether a skippable frame of zstd or lz4 starts here."""
    return len(head) >= 4 and 0x50 <= head[0] <= 0x5F and head[1:4] == _SKIPPABLE


def compression_of(head: bytes) -> str | None:
    """Return the name of the compression whose stream starts with these bytes, or None."""
    for magic, name in _COMPRESSED:
        if head.startswith(magic):
            return name
    return None


def elf_head(head: bytes) -> ElfHead | None:
    """Return the ELF header's fields; None when it is not ELF or its header is not whole."""
    if not head.startswith(ELF_MAGIC) or len(head) < 20:
        return None
    order = ">" if head[5] == 2 else "<"
    bits = 32 if head[4] == 1 else 64
    kind, machine = struct.unpack_from(order + "HH", head, 16)
    return ElfHead(bits, order == "<", kind, machine, _has_interpreter(head, bits, order))


def _has_interpreter(head: bytes, bits: int, order: str) -> bool:
    form, at, count_at = (order + "Q", 32, 54) if bits == 64 else (order + "I", 28, 42)
    if len(head) < count_at + 4:
        return False
    (offset,) = struct.unpack_from(form, head, at)
    entry_size, count = struct.unpack_from(order + "HH", head, count_at)
    for index in range(count if entry_size >= 32 else 0):
        start = offset + index * entry_size
        if start > len(head) - 4:
            return False
        if struct.unpack_from(order + "I", head, start)[0] == _PT_INTERP:
            return True
    return False


def require_core(
    head: bytes, where: str, *, packed_as: str | None = None, gpu: bool = False
) -> None:
    """Raise EvidenceError that says what the file is unless it is a core that we read.

    `packed_as` is the compression out of which `head` came; `gpu`: a core of CUDA GPUs is wanted,
    not one of a process.
    """
    elf = elf_head(head) if gpu else None
    if elf is not None and elf.is_gpu_core and len(head) >= ELF_HEADER_BYTES:
        return
    inside = f"a {packed_as} file that holds " if packed_as else ""
    if not head:
        what = "a compressed file with nothing in it" if packed_as else "the file is empty"
        hint = "the disk may have been full, or the limit of cores (ulimit -c) too small"
        raise EvidenceError(where, what, hint=hint)
    if head.startswith(ELF_MAGIC):
        _require_elf_core(head, where, inside)
        return
    what, hint = _foreign(head)
    raise EvidenceError(where, f"not a core file: {inside}{what}", hint=hint)


def _require_elf_core(head: bytes, where: str, inside: str) -> None:
    elf = elf_head(head)
    if elf is None or (elf.is_core and elf.bits == 64 and len(head) < ELF_HEADER_BYTES):
        what = f"{inside}an ELF header that ends after {len(head)} bytes of {ELF_HEADER_BYTES}"
        raise EvidenceError(where, what, hint="the file was cut off; was the disk full?")
    if not elf.is_core:
        what, hint = _not_core_elf(elf)
        raise EvidenceError(where, f"not a core file: {inside}{what}", hint=hint)
    if elf.is_gpu_core:
        hint = f"postmortem core {shell_word(where)} explains it"
        what = (
            f"{inside}a core of {'an' if elf.is_amd else 'a'} {elf.machine_name}, not of a process"
        )
        raise EvidenceError(where, what, hint=hint)
    if elf.bits != 64 or not elf.little_endian or elf.machine not in _MACHINES_READ:
        kind = f"{elf.bits}-bit {'little' if elf.little_endian else 'big'}-endian"
        what = f"{inside}a core of a {kind} {elf.machine_name} process"
        hint = (
            "postmortem reads 64-bit little-endian cores of x86-64 and aarch64; "
            "gdb of (or built for) that machine reads this one"
        )
        raise EvidenceError(where, what, hint=hint)
    for note, what, hint in _MACHINES_MEMORY:
        if note in head:
            raise EvidenceError(where, f"{inside}{what}", hint=hint)


# Notes of memory that is no process's: the type, the name, and what is fixed of what follows.
_MACHINES_MEMORY = (
    (
        b"VMCOREINFO\0",
        "a crash dump of the Linux kernel",
        "it belongs to the kernel, not to a process: open it with crash or drgn",
    ),
    (
        b"\0\0\0\0QEMU\0\0\0\0\1\0\0\0",
        "the memory of a virtual machine (QEMU)",
        "crash or drgn opens it with the vmlinux of its kernel",
    ),
    (
        b"\0\0\0\2Xen\0",
        "the memory of a virtual machine (Xen)",
        "crash opens it with the vmlinux of its kernel",
    ),
    (b"\0\x0b\0\0VBCORE\0", "the memory of a virtual machine (VirtualBox)", "volatility reads it"),
)


def _not_core_elf(elf: ElfHead) -> tuple[str, str]:
    if elf.type == _ET_REL:
        return "an object file (.o)", "give the core that the process left"
    if elf.type == _ET_DYN and not elf.has_interpreter:
        kind = "a shared library"
    elif elf.type in (_ET_EXEC, _ET_DYN):
        kind = "an executable"
    else:
        return f"an ELF file of type {elf.type}", "give the core that the process left"
    hint = (
        "give the core that the process left; the executable goes to --python: "
        "postmortem core CORE --python EXE"
    )
    return f"{kind} ({elf.machine_name})", hint


_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"MDMP", "a minidump (Breakpad, Crashpad or Windows)", "minidump-stackwalk reads it"),
    (b"PAGEDU64", "a crash dump of the Windows kernel", "WinDbg reads it"),
    (b"PAGEDUMP", "a crash dump of the Windows kernel", "WinDbg reads it"),
    (b"MZ", "a Windows program", "give the core that the process left"),
    (b"KDUMP   ", "a crash dump of the Linux kernel", "open it with crash or drgn"),
    (b"DISKDUMP", "a crash dump of the Linux kernel", "open it with crash or drgn"),
    (b"makedumpfile", "a crash dump of the Linux kernel", "open it with crash or drgn"),
    (b"EMiL", "an image of a machine's memory (LiME)", "volatility reads it"),
    (b"\0asm", "a WebAssembly module, or a core of one", "wasmgdb reads cores of WebAssembly"),
    (
        b"*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***\n",
        "a tombstone of Android, which is text",
        "read it as it is; ndk-stack -sym DIR -dump FILE adds names and lines",
    ),
    (
        b"#\n# A fatal error has been detected by the Java Runtime Environment",
        "a report of the JVM (hs_err_pid….log)",
        "postmortem FILE explains it",
    ),
    (b"JAVA PROFILE 1.0", "a heap dump of the JVM", "Eclipse MAT or jhat reads it"),
    (b"070701", "a cpio archive (an initramfs)", "unpack it first: cpio -id < FILE"),
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer, which stands for the real file",
        "fetch the file itself: git lfs pull",
    ),
    (
        b"ProblemType:",
        "a crash report of apport with the core inside",
        "unpack it: apport-unpack FILE.crash OUT; then postmortem core OUT/CoreDump",
    ),
    (b"PK\x03\x04", "a zip archive (PyTorch checkpoints are one)", "unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first: 7z x FILE"),
    (b"\x1f\x9d", "a file packed by compress (.Z)", "unpack it first: uncompress -c FILE"),
    (b"\x89LZO\0", "a file packed by lzop", "unpack it first: lzop -dc FILE"),
    (b"!<arch>\n", "a static library or a Debian package", "give the core of the process"),
    (b"\x93NUMPY", "a NumPy array", "give the core that the process left"),
    (b"%PDF", "a PDF document", "give the core that the process left"),
    (b"SQLite format 3\0", "an SQLite database", "give the core that the process left"),
    (b"\x89HDF", "an HDF5 file", "give the core that the process left"),
    (b"LPKSHHRH", "a journal of systemd", "coredumpctl dump PID -o core writes the core out"),
)

_MACH_O = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce")


def foreign(head: bytes) -> tuple[str, str] | None:
    """Return what a dump or a document of another system is, by how it begins, and who reads it."""
    return next(((what, hint) for magic, what, hint in _FOREIGN if head.startswith(magic)), None)


def _foreign(head: bytes) -> tuple[str, str]:
    """Return what a file that is neither ELF nor compressed is, and what to do about it."""
    if known := foreign(head):
        return known
    if head[:4] in _MACH_O:
        order = "<" if head[3] == 0xFE else ">"
        is_core = len(head) >= 16 and struct.unpack_from(order + "I", head, 12)[0] == 4
        return f"a macOS {'core' if is_core else 'program'} (Mach-O)", "lldb on a Mac reads it"
    if head[257:262] == b"ustar":
        return "a tar archive", "unpack it first: tar -xf FILE"
    if compression := compression_of(head):
        return f"another {compression} stream", "unpack it once, then give what comes out"
    if not head.strip(b"\0"):
        amount = "zeros only" if len(head) < HEAD_BYTES else f"zeros in its first {len(head)} bytes"
        return amount, "the core was never written, or the file system lost it (disk full?)"
    return _text_or_unknown(head)


def _text_or_unknown(head: bytes) -> tuple[str, str]:
    if b"\0" in head or not _is_text(head):
        first = head[:8].hex(" ")
        return f"unknown data that starts with {first}", "an ELF core starts with 7f 45 4c 46"
    first_line = head.split(b"\n", 1)[0]
    if first_line.startswith(b"#!"):
        kind = "Python" if b"python" in first_line else "shell or other"
        return f"a {kind} script", "give the core that the process left, not the program"
    if head.lstrip().startswith((b"import ", b"from ", b'"""')):
        return "a Python script", "give the core that the process left, not the program"
    return "a text file", "postmortem core reads ELF cores"


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and len(head) > 3
    return not any(byte < 9 or 13 < byte < 27 for byte in head[:4096])
