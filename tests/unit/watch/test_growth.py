"""Who grows, who only loads, and when a limit will be reached."""

import random
from collections.abc import Callable

import pytest

from postmortem.diagnose import rule
from postmortem.diagnose.watch.growing import growing
from postmortem.facts.watch import MIB, Ceiling, Sample, Watched, Watching, growth
from postmortem.report.model import Confidence, Diagnosis

GIB = 1 << 30


def seen(held: Callable[[int], float], count: int = 120, limit: int | None = None) -> Watching:
    samples = tuple(
        Sample(1000.0 + n, int(held(n)), int(held(n)), 0, 0, 0, 0) for n in range(count)
    )
    used = tuple((one.time, one.held) for one in samples)
    ceilings = (Ceiling("memory.max of the cgroup /job", limit, used),) if limit else ()
    one = Watched(42, "python train.py", 3, samples, False, (("train.py:41 in step", 9),), 10)
    return Watching((one,), ceilings, float(count), 1.0)


def diagnosed(watching: Watching) -> dict[str, Diagnosis]:
    found = rule.run(rule.load("watch"), {Watching: watching})
    assert not found.problems
    return {one.id: one for one in found.diagnoses}


def noise(size: float) -> Callable[[int], float]:
    chance = random.Random(3)
    values = [chance.uniform(-size, size) for _ in range(1000)]
    return lambda n: values[n]


@pytest.mark.parametrize(
    "held",
    [
        lambda n: GIB + n * MIB,
        lambda n: GIB + n * MIB + noise(5 * MIB)(n),
        lambda n: GIB + n // 10 * 10 * MIB,  # a step at a time
    ],
)
def test_who_grows(held: Callable[[int], float]) -> None:
    one = diagnosed(seen(held))["memory_grows"]
    assert one.confidence is Confidence.LIKELY
    ((process, trend),) = growing(seen(held))
    assert process.pid == 42
    assert trend.per_second == pytest.approx(MIB, rel=0.1)


@pytest.mark.parametrize(
    "held",
    [
        lambda n: GIB,
        lambda n: GIB + noise(200 * MIB)(n),
        lambda n: GIB + n % 20 * 50 * MIB,  # takes and gives back
        lambda n: min(n, 40) * 50 * MIB + GIB,  # loads, then computes
        lambda n: 2 * GIB - n * MIB,
        lambda n: GIB + n * 1024,  # too little to speak of
    ],
)
def test_who_does_not(held: Callable[[int], float]) -> None:
    assert "memory_grows" not in diagnosed(seen(held))


def test_few_looks_tell_nothing() -> None:
    assert growth([(float(n), n * 1e9) for n in range(7)]) is None
    assert growth([(5.0, n * 1e9) for n in range(50)]) is None


def test_the_forecast(golden: Callable[[str, str], None]) -> None:
    found = diagnosed(seen(lambda n: GIB + n * MIB, limit=2 * GIB))
    one = found["memory_will_run_out"]
    assert one.confidence is Confidence.LIKELY
    # In 15 minutes: (1024 - 119) MiB at 1 MiB a second.
    told = (one.title.partition(", at ")[0], found["memory_grows"].cause)
    golden("forecast.txt", "".join(f"{words}\n" for words in told))


def test_no_forecast_where_it_is_far_or_flat() -> None:
    assert "memory_will_run_out" not in diagnosed(seen(lambda n: GIB + n * MIB, limit=1 << 50))
    assert "memory_will_run_out" not in diagnosed(seen(lambda n: GIB, limit=2 * GIB))


def test_a_limit_that_is_full_but_flat_is_only_possible() -> None:
    one = diagnosed(seen(lambda n: 2 * GIB - MIB, limit=2 * GIB))["memory_will_run_out"]
    assert one.confidence is Confidence.POSSIBLE
