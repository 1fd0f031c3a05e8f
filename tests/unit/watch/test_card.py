"""What the card of a watch shows where nobody grows."""

from builders.prose import Prose
from postmortem.facts.watch import MIB, Ceiling, Sample, Watched, Watching
from postmortem.present.headline.watch import headline
from postmortem.present.watch.card import watch_highlights
from postmortem.records import replace


def process(pid: int, first: int, last: int, *, ended: bool = False) -> Watched:
    held = (first, last)
    samples = tuple(Sample(float(at), m, m, 0, 0, 0, 0) for at, m in enumerate(held))
    return Watched(pid, "python", None, samples, ended)


def test_what_each_holds_and_how_it_changed(prose: Prose) -> None:
    limit = Ceiling("memory.max", 64 * MIB, ((0.0, 8 * MIB), (1.0, 16 * MIB)))
    shown = watch_highlights(
        Watching((process(7, 8 * MIB, 6 * MIB), process(8, MIB, 9 * MIB)), (limit,), 3.0, 1.0)
    )
    assert [name for name, _ in shown.rows] == ["pid 8", "pid 7", "memory.max"]
    prose(*map(": ".join, shown.rows), *shown.steps)


def test_many_are_counted_and_the_dead_are_not_watched_again() -> None:
    many = tuple(process(pid, MIB, MIB, ended=True) for pid in range(6))
    shown = watch_highlights(Watching(many, (), 3.0, 1.0))
    assert (len(shown.rows), shown.rest, shown.steps) == (4, "2 more processes", ())


def test_a_long_watch_asks_for_no_longer_one() -> None:
    assert watch_highlights(Watching((process(7, 1, 1),), (), 900.0, 1.0)).steps == ()


def test_what_was_named_is_watched_longer_and_its_end_is_told() -> None:
    rows = tuple(process(pid, MIB, pid * MIB) for pid in range(7, 11))
    shown = watch_highlights(Watching(rows, (), 3.0, 1.0, (7,)))
    (step,) = shown.steps
    assert [word for word in step.split() if word.isdigit()] == ["7", "600"]
    gone = Watching((process(7, MIB, MIB, ended=True), *rows[1:]), (), 3.0, 1.0, (7,))
    assert watch_highlights(gone).steps == ()
    said = [headline(replace(gone, asked=asked), None) for asked in ((7,), (7, 8), ())]
    plain = headline(replace(gone, asked=(8,)), None)
    assert [one == plain for one in said] == [False, True, True]
