"""The terminal of a breakpoint: keys, sizes, debuggers, guests that are not let in."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute
from builders.prose import Prose
from builders.terminals import SECONDS, Job, Terminal, all_wait_for_one
from postmortem.breakpoints import wire

PLAIN = Path(__file__).parents[2] / "programs" / "breakpoints" / "plain.py"
Start = Callable[..., Job]
Attach = Callable[..., Terminal]


def announced(env: dict[str, str]) -> dict[str, Any]:
    folder = Path(env["POSTMORTEM_ATTACH_DIR"])
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for path in folder.glob("rank*.json"):
            assert path.stat().st_mode & 0o777 == 0o600
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        time.sleep(0.02)
    pytest.fail("no breakpoint was announced")


def refused(env: dict[str, str], *words: str, **more: str) -> str:
    """What attach says where it is not let in; its exit code is 3."""
    command = [sys.executable, "-m", "postmortem", "attach", *words]
    done = execute(command, env=env | more, stdin=subprocess.DEVNULL)
    assert done.returncode == 3, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


def test_size_and_editing_of_lines(start: Start, attach: Attach, prose: Prose) -> None:
    job = start([sys.executable, PLAIN, "stop"])
    near = attach()
    near.until("(rank 0) ")
    near.type("!import os; print(tuple(os.get_terminal_size(0)), os.environ['TERM'])\r")
    near.until("(90, 30) xterm\r\n")
    near.resize(50, 133)
    near.process.send_signal(signal.SIGWINCH)
    end = time.monotonic() + SECONDS
    while "(133, 50)" not in near.seen:
        assert time.monotonic() < end
        near.type("!print(tuple(os.get_terminal_size(0)))\r")
        near.until("(rank 0) ")
        time.sleep(0.2)
        near.type("\x1b[A\r")  # the line before, by the arrow
        near.until("\n(")
        near.seen = "(" + near.seen
    near.type("secret = 99\r")
    near.type("c\r")
    prose(near.rest().splitlines()[-1])
    assert job.ends() == 0
    assert "result 100" in job.output
    assert "POSTMORTEM" not in job.output


def test_ctrl_c_reaches_the_program(start: Start, attach: Attach) -> None:
    job = start([sys.executable, PLAIN, "loop"])
    near = attach()
    near.until("(rank 0) ")
    near.type("\x03")  # at the prompt
    near.until("KeyboardInterrupt")
    near.until("(rank 0) ")
    near.type("until 31\r")  # past the loop
    near.until("turn")  # the program runs: a key before that would only be the prompt's
    near.type("\x03")
    near.until("(rank 0) ")
    near.type("c\r")
    near.rest()
    assert job.ends() == 0
    assert "result -77" in job.output


@pytest.mark.parametrize("how", ["left", "end of file"])
def test_who_leaves_lets_the_program_go_on(start: Start, attach: Attach, how: str) -> None:
    job = start([sys.executable, PLAIN, "stop"])
    near = attach()
    near.until("(rank 0) ")
    near.type("b 21\r")
    near.until("(rank 0) ")
    near.type("\x1d" if how == "left" else "\x04")
    near.rest()
    assert job.ends() == 0
    assert "result 42" in job.output


def test_commands_of_a_pipe(start: Start, env: dict[str, str]) -> None:
    job = start([sys.executable, PLAIN, "stop"])
    announced(env)
    done = execute([sys.executable, "-m", "postmortem", "attach"], input="p secret * 10\n", env=env)
    assert "410" in done.stdout
    assert done.returncode == 0
    assert job.ends() == 0


@pytest.mark.parametrize("ends", ["continue", "killed"])
@pytest.mark.parametrize("debugger", ["ipdb", "pudb"])
def test_other_debuggers(
    start: Start, attach: Attach, env: dict[str, str], debugger: str, ends: str
) -> None:
    pytest.importorskip(debugger)
    if debugger == "pudb":  # else it asks about its settings first
        settings = Path(env["HOME"], ".config", "pudb", "pudb.cfg")
        settings.parent.mkdir(parents=True)
        settings.write_text("[pudb]\nseen_welcome = e999\n")
    job = start(
        [sys.executable, PLAIN, "stop"],
        POSTMORTEM_DEBUGGER=debugger,
        XDG_CONFIG_HOME=f"{env['HOME']}/.config",
    )
    near = attach()
    if debugger == "ipdb":
        near.until("(rank 0)")
        near.type("p secret + 1000\r")
        near.until("1041")
    else:
        near.until("PuDB")
        near.until("secret")
    if ends == "continue":
        near.type("c\r" if debugger == "ipdb" else "c")
        near.rest()
        assert near.process.returncode == 0
        assert near.modes_now() == near.modes
    else:
        near.process.kill()
    assert job.ends() == 0
    assert "result 42" in job.output


def test_the_rank_s_own_terminal(terminal: Callable[..., Terminal]) -> None:
    # A shell between, as a launcher would be: Ctrl-C must not end it.
    command = f"{sys.executable} {PLAIN} loop; echo launcher lives"
    own = terminal(["sh", "-c", command])
    own.until("(rank 0) ")
    own.type("p turns\r")
    own.until("0\r\n")
    own.until("(rank 0) ")
    own.type("\x03")
    own.until("KeyboardInterrupt")
    own.until("(rank 0) ")
    own.type("!turns = -5\r")
    own.until("(rank 0) ")
    own.type("c\r")
    assert "launcher lives" in own.rest()
    assert "result -5" in own.seen
    assert own.modes_now() == own.modes


def test_uncaught_exception(start: Start, attach: Attach) -> None:
    job = start([sys.executable, PLAIN, "raising"])
    near = attach()
    near.until("(rank 0) ")
    near.type("p culprit + 1\r")
    near.until("1235")
    near.type("q\r")
    near.rest()
    assert job.ends() == 1
    assert job.output.count("KeyError: 1234") == 1


def test_no_breakpoint_waits(env: dict[str, str], prose: Prose) -> None:
    prose(refused(env).replace(socket.gethostname(), "HOST"))
    prose(refused(env, "localhost", POSTMORTEM_TOKEN="x" * 16))
    prose(refused(env, "localhost:many", POSTMORTEM_TOKEN="x" * 16))
    prose(refused(env, "localhost:1"))
    assert "refused" in refused(env, "localhost:1", POSTMORTEM_TOKEN="x" * 16)


def test_guests_that_are_not_let_in(
    start: Start, attach: Attach, env: dict[str, str], prose: Prose
) -> None:
    job = start([sys.executable, PLAIN, "stop"])
    words = announced(env)
    elsewhere = env | {"POSTMORTEM_ATTACH_DIR": "/nonexistent", "POSTMORTEM_TOKEN": "0" * 32}
    assert "token" in refused(elsewhere, words["address"])
    host, _, port = words["address"].partition(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(8)]
    rubbish = socket.create_connection((host, int(port)))
    rubbish.sendall(b"GET / HTTP/1.0\r\n\r\n".ljust(48, b"x"))
    answer = b""
    while part := rubbish.recv(1000):
        answer += part
    assert answer.startswith(b"postmortem breakpoint 1\n")
    assert answer.endswith(b"N")
    assert words["token"].encode() not in answer
    near = attach()
    near.until("(rank 0) ")
    prose(re.sub(r"\d+", "N", refused(env)))
    near.type("c\r")
    near.rest()
    assert job.ends() == 0
    for one in (*idle, rubbish):
        one.close()
    assert words["token"] not in job.output


def test_a_program_that_took_the_port_learns_nothing(env: dict[str, str], prose: Prose) -> None:
    with socket.create_server(("127.0.0.1", 0)) as fake:
        port = fake.getsockname()[1]
        command = [sys.executable, "-m", "postmortem", "attach", f"127.0.0.1:{port}"]
        token = "secret-" * 4
        with subprocess.Popen(
            command, env=env | {"POSTMORTEM_TOKEN": token}, stderr=subprocess.PIPE, text=True
        ) as near:
            link, _ = fake.accept()
            with link:
                link.sendall(b"postmortem breakpoint 1\n" + bytes(16))
                heard = link.recv(1000)
                link.sendall(b"Y" + bytes(32))
                assert near.wait(SECONDS) == 3
            assert token.encode() not in heard
            assert near.stderr is not None
            prose(near.stderr.read().replace(str(port), "PORT"))


STEERING = b"\x1b]52;c;cHduZWQ=\x07\x1b]0;pwned\x07\x1b[6n\x1b[?1049h"
"""Sets the clipboard and the title, asks where the cursor is, and takes the screen."""
GREETING = b"postmortem breakpoint 1\n"


@pytest.mark.parametrize(
    "answers",
    [
        [STEERING],
        [GREETING[:9] + STEERING],
        [GREETING + STEERING[:16].ljust(16, b"\x07"), STEERING],
        [GREETING + bytes(16), b"Y" + STEERING.ljust(64, b"\x07")],
        [GREETING + bytes(16), b"Y" + bytes(32) + b"D\0\0\0\x09" + STEERING[:9]],
        [GREETING + bytes(16), b"B" + STEERING],
        [GREETING + bytes(16), b"N" + STEERING],
    ],
)
def test_who_does_not_know_the_token_steers_no_terminal(
    answers: list[bytes], terminal: Callable[..., Terminal]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as fake:
        address = f"127.0.0.1:{fake.getsockname()[1]}"
        command = [sys.executable, "-m", "postmortem", "attach", address]
        near = terminal(command, POSTMORTEM_TOKEN="secret-" * 4)
        link, _ = fake.accept()
        with link:
            link.sendall(answers[0])
            if len(answers) > 1:
                link.recv(1000)
                link.sendall(answers[1])
            seen = near.rest()
    assert near.process.returncode == 3
    assert seen.startswith("postmortem: ")
    assert "\x1b" not in seen
    assert "\x07" not in seen
    assert near.modes_now() == near.modes


def test_who_knows_the_token_has_the_terminal(terminal: Callable[..., Terminal]) -> None:
    """The debugger needs colours and cursors; the last words are a line of ours, and plain."""
    token = "secret-" * 4
    with socket.create_server(("127.0.0.1", 0)) as rank:
        address = f"127.0.0.1:{rank.getsockname()[1]}"
        command = [sys.executable, "-m", "postmortem", "attach", address]
        near = terminal(command, POSTMORTEM_TOKEN=token)
        link, _ = rank.accept()
        with link:
            link.sendall(GREETING + bytes(16))
            nonce = wire.receive(link, 48)[:16]
            link.sendall(b"Y" + wire.proof(token.encode(), b"breakpoint", nonce, bytes(16)))
            wire.send(link, wire.DATA, b"\x1b[1mstop\x1b[0m\n")
            wire.send(link, wire.END, b"over" + STEERING)
            seen = near.rest()
    assert near.process.returncode == 0
    shown, _, last = seen.partition("\x1b[1mstop\x1b[0m")
    assert "\x1b" not in shown + last
    assert "over\\x1b]52;" in last


def test_what_an_announcement_says_steers_no_terminal(
    env: dict[str, str], terminal: Callable[..., Terminal]
) -> None:
    words = {"host": "h", "address": "127.0.0.1:1", "token": "x" * 16, "rank": 0, "world_size": 1}
    words |= {"job": STEERING.decode(), "pid": 1, "who": "w", "where": STEERING.decode()}
    for rank in (0, 1):
        path = Path(env["POSTMORTEM_ATTACH_DIR"], f"rank{rank}-h-1.json")
        path.write_text(json.dumps(words | {"rank": rank}))
    for more, code in ((["--list"], 0), ([], 3), (["--rank", "1"], 3)):
        near = terminal([sys.executable, "-m", "postmortem", "attach", *more])
        seen = near.rest()
        assert near.process.returncode == code
        assert "\x1b" not in seen
        assert "127.0.0.1:1" in seen


def test_a_child_keeps_neither_port_nor_terminal(start: Start, attach: Attach) -> None:
    job = start([sys.executable, PLAIN, "fork"])
    near = attach()
    near.until("(rank 0) ")
    near.type("n\r")
    near.until("(rank 0) ")
    near.type("n\r")
    near.until("(rank 0) ")
    near.type("p child\r")
    child = int(re.findall(r"\d+", near.until("(rank 0) "))[0])
    try:
        job.until("child prints")  # where the rank's own output goes
        near.type("c\r")
        near.rest()
        assert near.process.returncode == 0
        links = [str(path.readlink()) for path in Path(f"/proc/{child}/fd").iterdir()]
        assert not [link for link in links if link.startswith(("socket:", "/dev/pt"))]
    finally:
        os.kill(child, signal.SIGKILL)


def test_ranks_without_a_library(start: Start, attach: Attach, env: dict[str, str]) -> None:
    launcher = (
        "for r in 1 2 0; do RANK=$r WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 "
        f"{sys.executable} {PLAIN} stop & done; wait"
    )
    job = start(["sh", "-c", launcher])
    all_wait_for_one(job, attach())
    assert not any(Path(env["POSTMORTEM_ATTACH_DIR"]).iterdir())


def test_a_folder_that_others_may_enter_is_refused(env: dict[str, str], prose: Prose) -> None:
    Path(env["POSTMORTEM_ATTACH_DIR"]).chmod(0o755)
    prose(refused(env))
