"""Source lines and inlined calls out of DWARF, compared with binutils' addr2line."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders.commands import execute

_native = pytest.importorskip("postmortem._native")

PROGRAM = Path(__file__).parents[1] / "programs" / "lines.cpp"
Chain = list[tuple[str, int]]

SECOND = next(
    filter(shutil.which, ("llvm-addr2line", "llvm-addr2line-14", "eu-addr2line")), "no second tool"
)
TOOLS = ("addr2line", SECOND)
needs_addr2line = pytest.mark.skipif(shutil.which("addr2line") is None, reason="needs binutils")


Built = Callable[..., Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return `built(*flags, compiler=NAME)`: the library, compiled once."""

    @functools.cache
    def build(*flags: str, compiler: str = "g++") -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"needs {compiler}")
        folder = tmp_path_factory.mktemp("lines")
        out = folder / "liblines.so"
        command = [compiler, "-shared", "-fPIC", *flags, "-o", str(out), str(PROGRAM)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder)
        if done.returncode != 0 and re.search(r"unrecognized|unknown|unsupported", done.stderr):
            pytest.skip(f"{compiler} has no {' '.join(flags)}")
        assert done.returncode == 0, done.stderr
        return out

    return build


def code(library: Path) -> Iterator[int]:
    """Yield addresses inside of functions that have lines, three bytes apart."""
    nm = execute(["nm", "-S", "--defined-only", str(library)], check=True)
    for line in nm.stdout.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tTwW":
            start, size = int(words[0], 16), int(words[1], 16)
            yield from range(start, start + size, 3)


def of_tool(tool: str, library: Path, addresses: list[int]) -> list[Chain]:
    """Return file and line of each place, innermost first; without those that are not known."""
    asked = "\n".join(map(hex, addresses))
    done = execute([tool, "-a", "-i", "-e", str(library)], input=asked)
    chains: list[Chain] = []
    for line in done.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            chains.append([])
            continue
        file, _, number = line.partition(" (discriminator")[0].rpartition(":")
        if file != "??" and number not in ("?", "0"):
            chains[-1].append((os.path.normpath(file), int(number)))
    return chains


def of_ours(library: Path, addresses: list[int]) -> list[Chain]:
    rows = _native.source_lines(str(library), addresses)
    return [
        [(os.path.normpath(file), line) for _, file, line in row if file and line] for row in rows
    ]


def differences(library: Path) -> tuple[int, list[tuple[str, Chain, list[Chain]]]]:
    """Return how many addresses there are, and those at which we agree with no other tool.

    binutils 2.40 takes the wrong file of DWARF 5 at -O0, so that one alone proves nothing.
    """
    addresses = sorted(set(code(library)))
    assert len(addresses) > 300
    others = [of_tool(tool, library, addresses) for tool in TOOLS if shutil.which(tool)]
    differ = []
    rows = zip(addresses, of_ours(library, addresses), *others, strict=True)
    for address, ours, *theirs in rows:
        if ours not in theirs:
            differ.append((hex(address), ours, theirs))
    return len(addresses), differ


@needs_addr2line
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_every_version_of_dwarf(built: Built, version: int, level: str) -> None:
    library = built(level, f"-gdwarf-{version}")
    count, differ = differences(library)
    assert len(differ) <= count / 100, differ[:5]
    if level == "-O2":
        addresses = sorted(set(code(library)))
        assert any(len(chain) > 3 for chain in of_ours(library, addresses))


@needs_addr2line
@pytest.mark.parametrize(
    "flags",
    [
        ("-O2", "-g", "-gno-as-loc-support"),
        ("-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections"),
        ("-O2", "-g", "-flto"),
        ("-O2", "-gdwarf64"),
        ("-O2", "-g", "-fdebug-types-section"),
        ("-O2", "-g", "-fdebug-prefix-map=/=/elsewhere/"),
    ],
    ids=lambda flags: flags[-1],
)
def test_other_ways_of_writing_it(built: Built, flags: tuple[str, ...]) -> None:
    count, differ = differences(built(*flags))
    assert len(differ) <= count / 100, differ[:5]


@needs_addr2line
@pytest.mark.parametrize("flags", [("-gdwarf-4",), ("-gdwarf-5",), ("-gdwarf-5", "-flto")])
def test_clang(built: Built, flags: tuple[str, ...]) -> None:
    # no .debug_aranges: units are found by what they say of themselves
    compiler = next((c for c in ("clang++", "clang++-14") if shutil.which(c)), "clang++")
    library = built("-O2", *flags, compiler=compiler)
    count, differ = differences(library)
    assert len(differ) <= count / 100, differ[:5]


@pytest.mark.skipif(not _native.unpacks["zlib"], reason="built without zlib")
def test_packed_entries_give_lines_without_inlined_calls(built: Built) -> None:
    plain = built("-O2", "-g")
    addresses = sorted(set(code(plain)))
    whole = of_ours(plain, addresses)
    packed = built("-O2", "-g", "-gz=zlib")
    assert addresses == sorted(set(code(packed)))
    lines = of_ours(packed, addresses)
    assert [chain[:1] for chain in whole] == lines


@pytest.mark.skipif(shutil.which("objcopy") is None, reason="needs binutils")
@pytest.mark.parametrize("table", [True, False])
def test_without_entries_each_unit_has_its_lines(tmp_path: Path, *, table: bool) -> None:
    for name in "abc":
        (tmp_path / f"{name}.c").write_text(f"int {name}(int x) {{\n  return x * 3;\n}}\n")
    library = tmp_path / "libabc.so"
    command = ["gcc", "-shared", "-fPIC", "-g", "-o", str(library), "a.c", "b.c", "c.c"]
    subprocess.run(command, check=True, timeout=100, cwd=tmp_path)
    gone = [".debug_info", *([] if table else [".debug_aranges"])]
    removals = [f"--remove-section={name}" for name in gone]
    subprocess.run(["objcopy", *removals, str(library)], check=True, timeout=100)
    nm = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True).stdout
    at = {row.split()[2]: int(row.split()[0], 16) for row in nm.splitlines() if row[0] == "0"}
    addresses = [at["c"], at["b"] + 8, at["a"]]
    expected = [("c.c", 1), ("b.c", 2), ("a.c", 1)]

    def lines() -> list[tuple[str, int] | None]:
        chains = of_ours(library, addresses)
        return [(Path(c[0][0]).name, c[0][1]) if c else None for c in chains]

    assert lines() == expected
    whole = bytearray(library.read_bytes())
    sections = execute(["readelf", "-SW", str(library)], check=True).stdout
    offset = re.search(r"\.debug_line +PROGBITS +\w+ (\w+)", sections)
    assert offset is not None
    whole[int(offset[1], 16) + 4] = 99  # the version of the first program
    library.write_bytes(whole)
    assert lines() == [*expected[:2], None]


def test_functions_have_the_names_that_users_know(built: Built) -> None:
    library = built("-O2", "-g")
    rows = _native.source_lines(str(library), sorted(set(code(library))))
    chains = [[name for name, _, _ in row] for row in rows]
    nested = next(c for c in chains if any("twice_scaled" in (name or "") for name in c))
    at = next(i for i, name in enumerate(nested) if "twice_scaled" in (name or ""))
    assert nested[at:][:2] == [
        nested[at],
        "trainer::loss(std::vector<trainer::Sample, std::allocator<trainer::Sample> > const&)",
    ]


@pytest.mark.parametrize("what", ["no file", "no ELF file", "no lines"])
def test_where_there_are_no_lines(built: Built, tmp_path: Path, what: str) -> None:
    path = tmp_path / "file"
    if what == "no ELF file":
        path.write_bytes(b"\x7fELF" + bytes(200))
    elif what == "no lines":
        path = built("-O2", "-g0")
    assert _native.source_lines(str(path), [0, 0x1000, 2**64 - 1]) == [[], [], []]


def test_any_word_of_it_may_be_wrong(built: Built, tmp_path: Path) -> None:
    library = built("-O2", "-g")
    whole = bytearray(library.read_bytes())
    addresses = sorted(set(code(library)))[:100]
    broken = tmp_path / "broken.so"
    for start in range(64, len(whole), max(len(whole) // 300, 1)):
        damaged = whole[:start] + bytes(b ^ 0xA5 for b in whole[start : start + 8])
        broken.write_bytes(damaged + whole[start + 8 :])
        assert len(_native.source_lines(str(broken), addresses)) == len(addresses)
        broken.write_bytes(whole[:start])
        assert len(_native.source_lines(str(broken), addresses)) == len(addresses)
