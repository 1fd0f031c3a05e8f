"""Every known bug: seen with a version that has it, and not one version off."""

from collections.abc import Iterator

import pytest

from postmortem.diagnose.known_bugs import SeenStack, Sight, find_bugs
from postmortem.facts.bug import KnownBug
from postmortem.facts.versions import LibraryVersion, Versions
from postmortem.knowledge.bugs import bugs
from postmortem.knowledge.version_ranges import bounds, version
from postmortem.records import replace
from postmortem.report.model import Confidence, Evidence

BUGS = bugs()
IDS = [bug.id for bug in BUGS]
OTHER = {"aarch64": "x86_64", "x86_64": "aarch64"}


def sight_of(bug: KnownBug) -> Sight:
    """Return all that the bug asks for, and nothing else."""
    functions = tuple(
        f"/opt/env/lib/{name}" if " " in name else f"{name}(int)" for name in bug.frames
    )
    modules = tuple(f"{name}.so.2" for name in bug.modules[:1])
    stack = SeenStack("thread 7", functions or ("??",), modules, crashed=bool(bug.signals))
    message = [(bug.messages[0], "log:3", "a known line")] if bug.messages else []
    return Sight(
        stacks=(stack,) if bug.frames or bug.modules else (),
        texts=(("log:3", f"RuntimeError: x {bug.text[0]} y"),) if bug.text else (),
        messages=tuple(message),
        signals=bug.signals[:1],
        variables={
            name: value or "1" for name, _, value in (v.partition("=") for v in bug.variables)
        },
    )


def just(text: str, step: int) -> str:
    """Return the version next to one, above or below it."""
    numbers = list(map(int, text.replace("rc1", "").split(".")))
    if step > 0:
        return ".".join(map(str, [*numbers[:-1], numbers[-1] + 1]))
    at = max(i for i, number in enumerate(numbers) if number)
    return ".".join(map(str, [*numbers[:at], numbers[at] - 1, 999]))


def inside(affected: str) -> str:
    terms = dict(bounds(affected))
    low = terms.get(">=")
    if low is None:
        return just(terms["<"], -1)
    return "2.3.1" if low == "0" else low


def outside(bug: KnownBug) -> Iterator[str]:
    for affected in bug.affected:
        for sign, limit in bounds(affected):
            if limit != "0":
                yield {"<": limit, "<=": just(limit, 1), ">=": just(limit, -1)}[sign]


def found(bug: KnownBug, text: str | None, machine: str | None, sight: Sight) -> list[Confidence]:
    items = (LibraryVersion(bug.library, text, "here"),) if text else ()
    said = find_bugs(Versions(items, machine), sight)
    return [one.confidence for one in said if f"(postmortem rules {bug.id})" in one.cause]


def machine_of(bug: KnownBug) -> str:
    return "x86_64" if bug.machine == "any" else bug.machine


@pytest.mark.parametrize("bug", BUGS, ids=IDS)
def test_seen_in_each_range(bug: KnownBug) -> None:
    for affected in bug.affected:
        one = version(inside(affected))
        assert one is not None
        cap = Confidence.POSSIBLE if one.before else Confidence(bug.confidence)
        assert found(bug, inside(affected), machine_of(bug), sight_of(bug)) == [cap]


@pytest.mark.parametrize("bug", BUGS, ids=IDS)
def test_not_one_version_off(bug: KnownBug) -> None:
    for text in outside(bug):
        one = version(text)
        if one is not None and any(text == inside(spec) for spec in bug.affected):
            continue  # 3.12 begins where the range of 3.11 has ended
        assert found(bug, text, machine_of(bug), sight_of(bug)) == [], text


@pytest.mark.parametrize("bug", BUGS, ids=IDS)
def test_nothing_seen_says_nothing(bug: KnownBug) -> None:
    """Each thing that must be seen is missed."""
    whole = sight_of(bug)
    holes = [
        replace(whole, stacks=()) if whole.stacks else None,
        replace(whole, texts=()) if whole.texts else None,
        replace(whole, messages=()) if whole.messages else None,
        replace(whole, signals=("SIGUSR2",)) if whole.signals else None,
        replace(whole, variables={}) if whole.variables else None,
    ]
    tried = [hole for hole in holes if hole is not None]
    assert tried
    for hole in tried:
        if hole.texts or hole.messages or not (bug.text and bug.messages):
            assert found(bug, inside(bug.affected[0]), machine_of(bug), hole) == []


@pytest.mark.parametrize("bug", [b for b in BUGS if b.machine != "any"], ids=lambda b: b.id)
def test_machine(bug: KnownBug) -> None:
    text, sight = inside(bug.affected[0]), sight_of(bug)
    assert found(bug, text, OTHER[bug.machine], sight) == []
    assert Confidence.CERTAIN not in found(bug, text, None, sight)


@pytest.mark.parametrize("bug", BUGS, ids=IDS)
def test_version_not_known(bug: KnownBug) -> None:
    expected = [Confidence.POSSIBLE] if bug.telling else []
    assert found(bug, None, machine_of(bug), sight_of(bug)) == expected


# The same words, or the same place, of something else: these versions have the bug too.
LOOKALIKES = {
    "numpy-2-extension-of-1": "ImportError: numpy.core.multiarray failed to import",
    "torch-mkl-2024.1": "ImportError: /opt/app/libprofiler.so: undefined symbol: iJIT_NotifyEvent",
    "torch-nccl-comm-register": "OSError: /opt/app/libcomm.so: undefined symbol: ncclCommRegister",
    "torch-nvjitlink-12.1": (
        "OSError: /opt/app/kernels.so: undefined symbol: __nvJitLinkAddData_12_1"
    ),
    "torch-nvjitlink-12.4": (
        "OSError: /opt/app/kernels.so: undefined symbol: __nvJitLinkComplete_12_4"
    ),
    "torch-tf32-two-ways": "UserWarning: client uses a mix of the legacy and new APIs",
}


def test_each_certain_bug_has_a_lookalike() -> None:
    assert {bug.id for bug in BUGS if bug.confidence == "certain"} == LOOKALIKES.keys()


@pytest.mark.parametrize("bug", [b for b in BUGS if b.id in LOOKALIKES], ids=lambda b: b.id)
def test_lookalike(bug: KnownBug) -> None:
    other = Sight(texts=(("log:3", LOOKALIKES[bug.id]),))
    assert found(bug, inside(bug.affected[0]), machine_of(bug), other) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("numpy-2.2.5-complex-aarch64", "gemm_driver may be of the OpenBLAS that SciPy brings"),
        ("protobuf-old-generated-code", "a program may make a descriptor by hand"),
        ("torch-cublaslt-symbol", "another package may have loaded the system's libcublas"),
    ],
)
def test_not_certain_by_its_words(name: str, why: str) -> None:
    bug = next(bug for bug in BUGS if bug.id == name)
    said = found(bug, inside(bug.affected[0]), machine_of(bug), sight_of(bug))
    assert said == [Confidence.LIKELY], why


CERTAIN = next(bug for bug in BUGS if bug.id == "torch-nvjitlink-12.4")


def confidence_with(*items: LibraryVersion) -> list[Confidence]:
    said = find_bugs(Versions(items, "x86_64"), sight_of(CERTAIN))
    return [one.confidence for one in said if CERTAIN.id in one.cause]


def test_what_lowers_confidence() -> None:
    here = LibraryVersion("torch", "2.5.0", "here")
    assert confidence_with(here) == [Confidence.CERTAIN]
    assert confidence_with(replace(here, sure=False)) == [Confidence.LIKELY]
    assert confidence_with(here, replace(here, version="2.4.0")) == [Confidence.LIKELY]
    assert confidence_with(replace(here, version="2.5.1rc1")) == [Confidence.POSSIBLE]
    assert confidence_with(replace(here, version="no version")) == [Confidence.POSSIBLE]


ON_ARM = next(bug for bug in BUGS if bug.id == "numpy-2.2.5-complex-aarch64")


def test_what_is_said() -> None:
    here = Versions((LibraryVersion("numpy", "2.2.5", "node1.log:3"),), "aarch64")
    (said,) = find_bugs(here, sight_of(ON_ARM))
    assert said.references == (ON_ARM.reference,)
    assert said.next_steps == ON_ARM.work_around
    assert Evidence("node1.log:3", "numpy 2.2.5") in said.evidence
    assert Evidence("machine", "aarch64") in said.evidence
    assert Evidence("signal", "SIGABRT") in said.evidence
