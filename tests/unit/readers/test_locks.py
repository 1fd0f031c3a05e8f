"""What threads wait for whose C library has no names."""

from typing import Any, cast

import pytest

from postmortem.readers.locks import read_waits

MAIN, OTHER = 100, 101
FS = {MAIN: 0x7F0000001740, OTHER: 0x7F0000802640}


def wait(
    address: int, *words: int, function: str | None = None, operation: int = 9, shared: bool = True
) -> Any:
    frames = [{"function": function}, {"function": None}]
    threads = [{"tid": t, "registers": (fs,), "frames": frames} for t, fs in FS.items()]
    row = {"tid": MAIN, "address": address, "operation": operation, "expected": words[0]}
    row |= {"timed": False, "parked": 0, "words": words, "shared": shared}
    raw = {"threads": threads, "register_names": ("fs_base",), "futex_waits": [row], "python": None}
    return read_waits(cast(Any, raw))[MAIN]


@pytest.mark.parametrize("offset", [0x38, 0x2D0, 0x628])
def test_the_end_of_a_thread(offset: int) -> None:
    found = wait(FS[OTHER] + offset, OTHER, 0, 0, 0, 0)
    assert (found.kind, found.holder, found.certain) == ("join", OTHER, False)
    named = wait(FS[OTHER] + offset, 2, 0, 0, 0, 0, function="pthread_join")
    assert (named.kind, named.holder, named.certain) == ("join", OTHER, True)


@pytest.mark.parametrize("address", [FS[MAIN] + 0x2D0, FS[OTHER] + 0x2D4, 0x5000])
def test_another_word_is_no_threads_end(address: int) -> None:
    assert wait(address, OTHER, 0, 0, 0, 0).kind == "futex"


@pytest.mark.parametrize("words", [(3, 1, 0, 0, OTHER), (2, 0, 0, OTHER, 0)])
def test_the_writer_of_a_read_write_lock(words: tuple[int, ...]) -> None:
    found = wait(0x5008, *words)
    assert (found.kind, found.holder, found.certain) == ("rwlock", OTHER, False)
    assert wait(0x5008, *words, function="pthread_rwlock_rdlock").certain


@pytest.mark.parametrize("words", [(3, 1, 0, 1, OTHER), (3, 1, 0, 0, 99), (0, 1, 0, 0, 1)])
def test_other_words_are_no_read_write_lock(words: tuple[int, ...]) -> None:
    assert wait(0x5008, *words).kind == "futex"


def test_a_mutex_of_musl_names_nobody() -> None:
    found = wait(0x5004, 0x80000010, 1, 0, 0, 0, operation=0)
    assert (found.kind, found.holder, found.certain) == ("unowned mutex", None, False)
    assert wait(0x5004, 0x80000010, 1, 0, 0, 0).kind == "futex"


@pytest.mark.parametrize(("shared", "kind"), [(True, "futex"), (False, "private futex")])
def test_who_may_wake_a_futex(shared: bool, kind: str) -> None:
    assert wait(0x5004, 1, 0, 0, 0, 0, shared=shared).kind == kind


@pytest.mark.parametrize("function", ["pthread_rwlock_wrlock", "pthread_barrier_wait"])
def test_what_processes_share_may_be_held_by_another_one(function: str) -> None:
    assert wait(0x5004, 1, 0, 0, 0, 0, function=function, shared=True).kind == "futex"
    own = wait(0x5004, 1, 0, 0, 0, 0, function=function, shared=False)
    assert own.kind in ("rwlock", "barrier")
