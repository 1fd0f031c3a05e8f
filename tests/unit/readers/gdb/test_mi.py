"""The conversation with a gdb that hangs, dies, talks nonsense or talks for ever."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.readers.gdb.mi import (
    Conversation,
    GdbDied,
    GdbRefused,
    GdbTooBusy,
    GdbTooSlow,
    Lines,
    parse_record,
    quoted,
)

from .conftest import FakeGdb, group_is_gone, our_environment


def talk_to(path: str, seconds: float = 10.0, **options: object) -> Conversation:
    return Conversation(
        (path,),
        cwd=None,
        env=dict(os.environ),
        deadline=time.monotonic() + seconds,
        **options,  # type: ignore[arg-type]
    )


def test_answers_belong_to_their_questions(fake_gdb: FakeGdb) -> None:
    # Noise between the records, and an answer that comes once more.
    path = fake_gdb(
        r"""
        lines = commands()
        first, _ = next(lines)
        say('=thread-created,id="1"')
        say('~"1^done,x=\\"no\\"\\n"')
        say(first + '^done,x="first"')
        second, _ = next(lines)
        say(first + '^done,x="late"')
        say(second + '^done,x="second"')
        """
    )
    with talk_to(path) as gdb:
        assert [gdb.ask("-a"), gdb.ask("-b")] == [{"x": "first"}, {"x": "second"}]


def test_refusal_carries_the_message_of_gdb(fake_gdb: FakeGdb) -> None:
    path = fake_gdb(
        r"""
        for token, command in commands():
            say(token + '^error,msg="\\"core\\" is not a core dump"')
        """
    )
    with talk_to(path) as gdb, pytest.raises(GdbRefused, match='"core" is not a core dump'):
        gdb.ask("-target-select core core")


def test_a_large_command_and_a_large_answer_at_once_do_not_block(fake_gdb: FakeGdb) -> None:
    # Both pipes fill: a loop that writes all before it reads would hang.
    path = fake_gdb(
        """
        say('~"' + "y" * 400_000 + '"')
        for token, command in commands():
            say(token + '^done,x="' + "y" * 400_000 + '"')
        """
    )
    with talk_to(path, 30) as gdb:
        assert gdb.ask("-long " + "z" * 400_000) == {"x": "y" * 400_000}


def test_hanging_gdb_is_left_at_the_deadline_and_killed(fake_gdb: FakeGdb) -> None:
    path = fake_gdb(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
        """
    )
    began = time.monotonic()
    with talk_to(path, 0.7) as gdb:
        group = gdb.group
        with pytest.raises(GdbTooSlow, match="-thread-info"):
            gdb.ask("-thread-info")
    assert 0.6 < time.monotonic() - began < 20
    assert group_is_gone(group)


@pytest.mark.parametrize(
    ("last_act", "how"),
    [
        ("sys.exit(3)", "exit status 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
    ],
)
def test_dying_gdb_is_told_with_its_last_words(fake_gdb: FakeGdb, last_act: str, how: str) -> None:
    path = fake_gdb(
        f"""
        for token, command in commands():
            if command == "-die":
                print("internal-error: symbol table is a lie", file=sys.stderr, flush=True)
                {last_act}
            answer(token, command)
        """
    )
    began = time.monotonic()
    with talk_to(path) as gdb:
        gdb.ask("-fine")
        with pytest.raises(GdbDied, match=rf"-die \({how}\); last words: .*table is a lie"):
            gdb.ask("-die")
    assert time.monotonic() - began < 20


def test_grandchild_neither_hides_the_death_nor_survives(fake_gdb: FakeGdb) -> None:
    # The grandchild holds gdb's standard output open: there is no end of file to wait for.
    path = fake_gdb(
        """
        subprocess.Popen(["sleep", "1000"])
        say("started")
        sys.exit(1)
        """
    )
    began = time.monotonic()
    with talk_to(path, 30) as gdb:
        group = gdb.group
        with pytest.raises(GdbDied, match="exit status 1"):
            gdb.ask("-thread-info")
    assert time.monotonic() - began < 20
    assert group_is_gone(group)


def test_gdb_that_closes_its_output_but_lives_on_is_left(fake_gdb: FakeGdb, prose: Prose) -> None:
    path = fake_gdb(
        """
        os.close(1), os.close(2)
        time.sleep(1000)
        """
    )
    with talk_to(path, 30) as gdb:
        with pytest.raises(GdbDied) as refused:
            gdb.ask("-thread-info")
        prose(refused.value)
        group = gdb.group
    assert group_is_gone(group)


@pytest.mark.parametrize("end", ["", "\\n"])
def test_endless_output_ends_at_the_deadline_in_bounded_memory(fake_gdb: FakeGdb, end: str) -> None:
    import resource

    path = fake_gdb(
        f"""
        while True:
            sys.stdout.write("x" * 65536 + "{end}")
        """
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with talk_to(path, 1.0, max_line=1 << 20) as gdb, pytest.raises((GdbTooSlow, GdbDied)):
        gdb.ask("-thread-info")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50 << 10, f"grew by {grown} KiB"


def test_endless_lines_that_are_no_answers_are_not_read_to_the_deadline(
    fake_gdb: FakeGdb, prose: Prose
) -> None:
    path = fake_gdb(
        """
        while True:
            say("^")
        """
    )
    with talk_to(path, 60) as gdb, pytest.raises(GdbDied) as refused:
        gdb.ask("-thread-info")
    prose(refused.value)


def test_answer_over_the_limit_is_an_error_and_not_a_wait(fake_gdb: FakeGdb, prose: Prose) -> None:
    path = fake_gdb(
        """
        for token, command in commands():
            say(token + '^done,x="' + "y" * 300000 + '"')
        """
    )
    began = time.monotonic()
    with talk_to(path, 30, max_line=1 << 16) as gdb, pytest.raises(GdbDied) as refused:
        gdb.ask("-thread-info")
    prose(refused.value)
    assert time.monotonic() - began < 20


def test_garbage_is_refused_and_the_next_answer_still_understood(fake_gdb: FakeGdb) -> None:
    path = fake_gdb(
        r"""
        sys.stdout.buffer.write(b"\xff\xfe\x00garbage\n(gdb) \n^done\n99999^\n")
        for token, command in commands():
            say(token + ("^done,a=[{b=" if command == "-first" else "^done,fine=\"yes\""))
        """
    )
    with talk_to(path) as gdb:
        with pytest.raises(GdbRefused, match="not understood"):
            gdb.ask("-first")
        assert gdb.ask("-second") == {"fine": "yes"}


def test_missing_program_is_a_gdb_that_cannot_be_started(tmp_path: Path, prose: Prose) -> None:
    with pytest.raises(GdbDied) as refused, talk_to(str(tmp_path / "nowhere")):
        pass
    prose(refused.value)


def test_ctrl_c_kills_gdb_and_what_it_started(fake_gdb: FakeGdb, tmp_path: Path) -> None:
    path = fake_gdb(
        """
        subprocess.Popen(["sleep", "1000"])
        time.sleep(1000)
        """
    )
    program = tmp_path / "asks.py"
    program.write_text(
        "import os, sys, time\n"
        "from postmortem.readers.gdb.mi import Conversation\n"
        f"talk = Conversation(({path!r},), cwd=None, env=dict(os.environ),\n"
        "    deadline=time.monotonic() + 100)\n"
        "with talk as gdb:\n"
        "    print(gdb.group, flush=True)\n"
        "    gdb.ask('-thread-info')\n"
    )
    asking = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=our_environment(),
    )
    assert asking.stdout is not None
    group = int(asking.stdout.readline())
    asking.send_signal(signal.SIGINT)
    _, complaint = asking.communicate(timeout=20)
    assert "KeyboardInterrupt" in complaint
    assert group_is_gone(group)


@pytest.mark.parametrize(
    "line",
    [
        "1^done,a=[",  # pygdbmi 0.11 never comes back from this one
        '1^done,a=[frame={b="1"}',
        '1^done,a="',
        '1^done,a={b="1"]',
        "1^done," + "a=[" * 100 + "]" * 100,
        "1^done,a",
        '~"console"',
        "",
    ],
)
def test_broken_record_is_none(line: str) -> None:
    assert parse_record(line) is None


@given(st.text('1^done,="[]{}ab\\', max_size=60))
def test_parser_comes_back_from_anything(text: str) -> None:
    record = parse_record("1^done," + text)
    assert record is None or record["type"] == "result"


@given(st.text())
def test_quoted_text_is_one_line_and_comes_back(text: str) -> None:
    text = text.replace("\r", "").replace("\n", " ")
    line = f"1^done,x={quoted(text)}"
    assert "\n" not in line
    if text.isprintable() and text.isascii():
        record = parse_record(line)
        assert record is not None
        assert record["payload"] == {"x": text}


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_lines_do_not_depend_on_how_they_were_cut(chunks: list[bytes], size: int) -> None:
    whole = b"".join(chunks)
    at_once, piecewise = Lines(20), Lines(20)
    expected = at_once.feed(whole)
    pieces = [whole[i : i + size] for i in range(0, len(whole), size)]
    assert [line for piece in pieces for line in piecewise.feed(piece)] == expected
    assert all(len(line) <= 20 for line in expected)


def test_a_gdb_that_works_too_long_is_stopped_by_its_own_time(
    fake_gdb: FakeGdb, prose: Prose
) -> None:
    path = fake_gdb(
        """
        while True:
            pass
        """
    )
    with talk_to(path, 60, cpu_seconds=0.2) as gdb:
        with pytest.raises(GdbTooBusy) as refused:
            gdb.ask("-slow")
        prose(refused.value)
        group = gdb.group
    assert group_is_gone(group)


def test_a_gdb_that_waits_uses_none_of_its_processor_time(fake_gdb: FakeGdb) -> None:
    path = fake_gdb(
        """
        for token, command in commands():
            time.sleep(0.4)
            answer(token, command)
        """
    )
    with talk_to(path, 60, cpu_seconds=30) as gdb:
        assert gdb.ask("-patient") == {}
