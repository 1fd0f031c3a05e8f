"""What the linker wrote into a binary on disk: needed libraries, versions, search paths, TLS.

The only user of lief, which costs 0.4 s to import and holds the whole file in memory: so it is
imported late, told to leave everything else out (libtorch_cpu.so: 2.8 s down to 0.6 s), and never
given a file above a limit.
"""

import re
import signal
from pathlib import Path
from typing import Any

from postmortem.errors import EvidenceError
from postmortem.facts.memory import BinaryFacts
from postmortem.readers.formats import ELF_HEADER_BYTES, elf_head
from postmortem.readers.regular import open_regular, unread

DEFAULT_LIMIT_BYTES = 64 << 20

_DF_STATIC_TLS = 0x10  # elf.h
_LEFT_OUT = (
    "parse_dyn_symbols",
    "parse_notes",
    "parse_overlay",
    "parse_relocations",
    "parse_symtab_symbols",
)


def read_binary(path: str, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> BinaryFacts:
    """Return what the linker wrote into an executable or library.

    Raises EvidenceError when it cannot be read, is not such a file, or is larger than
    `limit_bytes` (the size of the memory that reading it takes).
    """
    binary = _parse(path, limit_bytes)
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    static_tls = False
    for entry in binary.dynamic_entries:
        tag = str(entry.tag).rpartition(".")[2]
        if tag == "RPATH":
            rpath = _folders(entry)
        elif tag == "RUNPATH":
            runpath = _folders(entry)
        elif tag == "FLAGS":
            static_tls = bool(entry.value & _DF_STATIC_TLS)
    versions = tuple(
        (_text(row.name), tuple(sorted((_text(a.name) for a in _needs(row)), key=version_key)))
        for row in binary.symbols_version_requirement
    )
    needed = tuple(_text(name) for name in binary.libraries)
    return BinaryFacts(path, needed, versions, rpath, runpath, static_tls)


def versions_provided(path: str, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> tuple[str, ...]:
    """Return the symbol versions that a library defines, as ``GLIBCXX_3.4.30``, oldest first.

    Raises EvidenceError as `read_binary` does.
    """
    binary = _parse(path, limit_bytes)
    names: set[str] = set()
    for definition in binary.symbols_version_definition:
        # the first name is the version, the others are the versions that it comes after;
        # the base definition (VER_FLG_BASE) is the name of the library itself
        own = [_text(auxiliary.name) for auxiliary in definition.auxiliary_symbols][:1]
        if definition.flags & 1 == 0:
            names.update(own)
    return tuple(sorted(names, key=version_key))


def version_key(name: str) -> tuple[str, tuple[int, ...], str]:
    """Return a sort key by which GLIBC_2.9 comes before GLIBC_2.36."""
    family, _, number = name.rpartition("_")
    return family, tuple(int(part) for part in re.findall(r"\d+", number)), name


def _parse(path: str, limit_bytes: int) -> Any:
    """Return lief's binary; Any because lief's types differ between 0.16 and 1.0."""
    _check(path, limit_bytes)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        import lief  # Ctrl-C on the way ends the process in its C++
    except ImportError as error:
        hint = "pip install 'lief>=0.16'"
        raise EvidenceError(path, "lief is missing, which reads binaries", hint=hint) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    lief.logging.disable()  # it writes warnings about odd files to standard output
    config = lief.ELF.ParserConfig()
    for name in _LEFT_OUT:
        if hasattr(config, name):
            setattr(config, name, False)
    try:
        binary = lief.ELF.parse(path, config)
    except Exception as error:  # lief's own exceptions and nanobind's: anything on hostile input
        raise EvidenceError(path, f"lief cannot read this binary: {error}") from error
    if not isinstance(binary, lief.ELF.Binary):
        raise EvidenceError(path, "lief cannot read this binary: its headers make no sense")
    return binary


def _check(path: str, limit_bytes: int) -> None:
    try:
        if not Path(path).is_file():  # opening a FIFO or a device would block or do harm
            raise EvidenceError(path, "no such file")
        with open_regular(path) as stream:
            head = stream.read(ELF_HEADER_BYTES)
            size = stream.seek(0, 2)
    except OSError as error:
        raise EvidenceError(path, unread(error)) from error
    elf = elf_head(head)
    if elf is None or len(head) < 52:
        raise EvidenceError(path, "not an ELF file")
    if elf.is_core:
        raise EvidenceError(path, "a core, where an executable or a library was expected")
    if size > limit_bytes:
        what = f"{size >> 20:,} MiB, more than the {limit_bytes >> 20:,} MiB that are read"
        raise EvidenceError(path, what)


def _folders(entry: Any) -> tuple[str, ...]:
    paths = getattr(entry, "paths", None)
    if paths is None:
        return ()
    return tuple(_text(part) for part in paths)


def _needs(requirement: Any) -> Any:
    return requirement.get_auxiliary_symbols()


def _text(value: str | bytes) -> str:
    """Return lief's text; it gives bytes where a name is not UTF-8."""
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)


def debug_info_of(path: str, *, limit_bytes: int = 4 * DEFAULT_LIMIT_BYTES) -> str | None:
    """Return the file that holds the DWARF of a binary: itself, a separate one, or None.

    Separate files are looked up as gdb does: by build ID under /usr/lib/debug, then by the name
    in .gnu_debuglink. Raises EvidenceError as `read_binary` does.
    """
    binary = _parse(path, limit_bytes)
    sections = {_text(section.name): section for section in binary.sections}
    if ".debug_info" in sections or ".zdebug_info" in sections:
        return path
    candidates: list[Path] = []
    if (note := sections.get(".note.gnu.build-id")) is not None:
        build_id = bytes(note.content)[16:36].hex()
        candidates.append(Path("/usr/lib/debug/.build-id", build_id[:2], build_id[2:] + ".debug"))
    if (link := sections.get(".gnu_debuglink")) is not None:
        name = bytes(link.content).split(b"\0", 1)[0].decode(errors="surrogateescape")
        folder = Path(path).resolve().parent
        beside = (folder, folder / ".debug", Path("/usr/lib/debug") / folder.relative_to("/"))
        candidates.extend(place / name for place in beside)
    return next((str(found) for found in candidates if found.is_file()), None)
