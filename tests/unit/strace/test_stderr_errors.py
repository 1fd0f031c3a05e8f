"""Errors that processes named on their standard error; what name servers answered."""

import pytest

from postmortem.diagnose.strace.nameservers import answer, answer_words, asked_names
from postmortem.diagnose.strace.stderr_errors import last_stderr_line, spoken_errors, spoken_failure
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscall_totals import NameMessage, Recording
from postmortem.facts.syscalls import LastFailure, SystemCalls, Task
from postmortem.knowledge.stderr_text import program_not_found


def spoke(*words: str, failures: tuple[LastFailure, ...] = ()) -> Task:
    lines = tuple(range(100, 100 + len(words)))
    return Task(
        1, None, None, ("x",), None, None,
        last_failures=failures, last_words=words, last_word_lines=lines,
    )  # fmt: skip


def failed(errno: str, line: int, path: str = "/x") -> LastFailure:
    return LastFailure(errno, "openat", path, "log", line, 1)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("OSError: [Errno 18] Invalid cros…\n",), ["EXDEV"]),
        (("Error: Os { code: 13 } (os error 13)\n",), ["EACCES"]),
        (("mv: ", "cannot move 'a' to 'b'", ": Directory not empty\n"), ["ENOTEMPTY"]),
        (("cannot open: No such file or dir…\n",), ["ENOENT"]),
        (("cannot open: No such…\n",), []),  # too short to know it
        (("No such luck\n",), []),
        (("exit status 2, 17 files\n",), []),
        (("[Errno 999] what\n",), []),
        ((), []),
    ],
)
def test_errors_are_known_by_number_and_by_message(
    words: tuple[str, ...], names: list[str]
) -> None:
    assert [name for name, _ in spoken_errors(spoke(*words))][:1] == names


def test_the_file_that_the_words_name_is_meant() -> None:
    words = ("cat: ", "data/a.txt", ": No such file or directory\n")
    later = failed("ENOENT", 98, "/home/b.txt")
    catalogue = failed("ENOENT", 99, "/usr/share/locale/C/LC_MESSAGES/libc.mo")
    for path in ("/home/data/a.txt", "data/a.txt"):
        found = spoken_failure(
            spoke(*words, failures=(failed("ENOENT", 50, path), later, catalogue))
        )
        assert found is not None
        assert found.path == path
    found = spoken_failure(spoke(*words, failures=(later, catalogue)))
    assert found is not None
    assert found.path == "/home/b.txt"
    assert spoken_failure(spoke(*words, failures=(catalogue,))) is None


def test_the_call_before_the_words_is_meant_and_not_one_after_them() -> None:
    words = ("Traceback\n", "FileNotFoundError: [Errno 2] No …\n")
    rows = (failed("ENOENT", 50, "/data"), failed("EACCES", 60), failed("ENOENT", 150, "<string>"))
    found = spoken_failure(spoke(*words, failures=rows))
    assert found is not None
    assert found.path == "/data"
    assert spoken_failure(spoke("Errno 2\n", failures=rows)) is None
    assert spoken_failure(spoke("[Errno 5]\n", failures=rows)) is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("cc1: fatal error: nofile.c: No s…\n", "compilation terminated.\n"), True),
        (("cannot use 'nofile.c'",), True),
        (('  File "/src/nofile.c", line 1\n',), False),  # of a traceback
        (("cc1: fatal error: anofile.c: No s…\n",), False),
        (("nofile.c_old is there\n",), False),
        (("nofile\n",), False),
    ],
)
def test_a_file_is_known_by_its_name(words: tuple[str, ...], found: bool) -> None:
    rows = (failed("ENOENT", 20, "/src/nofile.c"), failed("ENOENT", 90, "/src/x.gch"))
    assert (spoken_failure(spoke(*words, failures=rows)) is not None) is found
    far = (failed("ENOENT", 90, "/src/nofile.c"),)
    late = Task(
        1, None, None, ("x",), None, None,
        last_failures=far, last_words=words, last_word_lines=(400,) * len(words),
    )  # fmt: skip
    assert spoken_failure(late) is None


def test_a_note_names_no_file_that_failed() -> None:
    looked = (failed("ENOENT", 99, "/tmp/Cargo.toml"),)
    assert spoken_failure(spoke("note: see more keys of Cargo.toml\n", failures=looked)) is None
    assert spoken_failure(spoke("cannot read Cargo.toml\n", failures=looked)) is not None


def test_the_last_line_is_put_together_where_it_was_written_in_pieces() -> None:
    task = spoke("cp: failed to clone 'a…\n", ": Invalid cross-device link", "\n")
    assert last_stderr_line(task) == "cp: failed to clone 'a…: Invalid cross-device link"
    assert last_stderr_line(spoke("\n", " \n")) is None


HEADER = "\\352\\274\\{flags}\\0\\1\\0\\{count}\\0\\0\\0\\0\\7storage\\7cluster\\0\\0\\1\\0\\1"


def talked(*messages: tuple[bool, str]) -> Logs:
    rows = tuple(
        NameMessage(1, "log", line, is_answer, data)
        for line, (is_answer, data) in enumerate(messages, 1)
    )
    recording = Recording(9, 0, 9, None, ("-f",), 1, False, ())
    log = SystemCalls("log", (), 0, (), (), (), (), frozenset(), recording, name_messages=rows)
    return Logs((log,))


def reply(code: int, count: int = 0) -> tuple[bool, str]:
    return True, HEADER.format(flags=f"201\\2{code:02o}", count=count)


ASKED = (False, HEADER.format(flags="1\\0", count=0))


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ((ASKED,), ""),
        ((ASKED, reply(3)), "NXDOMAIN"),
        ((ASKED, reply(2), reply(2)), "SERVFAIL"),
        ((ASKED, reply(0)), "NODATA"),
        ((ASKED, reply(0, 1), reply(0)), "answered"),  # an A record, and no AAAA
        ((ASKED, reply(9)), "code 9"),
        ((ASKED, (True, "\\352")), ""),  # strace -s 1
        ((ASKED, (True, ASKED[1])), ""),  # a question that came back
    ],
)
def test_answers_of_name_servers(messages: tuple[tuple[bool, str], ...], code: str) -> None:
    logs = talked(*messages)
    assert answer(logs, 1) == code
    assert answer_words(code)
    assert asked_names(logs, 1) == ["storage.cluster"]
    assert answer(logs, 2) == ""
    assert asked_names(logs, 2) == []


def test_words_of_which_nothing_was_recorded_are_none() -> None:
    assert last_stderr_line(spoke("…", "…\n")) is None  # strace -s 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "Error: no module 'x'\nRequire stack:\n- /a\n    at f (x.js:1)\n\nNode.js v20\n",
            "Error: ",
        ),
        ('Exception in "main" Error\n\tat M.main(M.java:1)\n', "Exception in "),
        ("cc1: fatal error: x.c\ncompilation terminated.\n", "cc1: fatal error"),
        ("ValueError: Caught it\nOriginal:\n  File x\n    data = f(i)\n", "Original:"),
        ("RuntimeError: bad\n====\n", "RuntimeError: bad"),
        ("oh: no\nnote: run with `RUST_BACKTRACE=1`\n", "oh: no"),
        ("initdb: error: cannot run\ninitdb: hint: Please log in\n", "initdb: error"),
        ("  at last\n", "at last"),  # nothing else was said
    ],
)
def test_frames_and_frills_are_not_the_last_line(words: str, said: str) -> None:
    assert (last_stderr_line(spoke(words)) or "").startswith(said)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("bash: line 1: nvcc: command n…\n",), "nvcc"),
        (("bash: line 1: nvcc-12: comman…\n",), "nvcc-12"),
        (("bash: nvcc: command not found\n",), "nvcc"),
        (("/bin/sh: 1: ", "nvcc: not found", "\n"), "nvcc"),
        (("bash: ./x: No such file or directory\n",), None),
        (("nvcc: not found\n",), None),  # of no shell
    ],
)
def test_what_a_shell_did_not_find(words: tuple[str, ...], name: str | None) -> None:
    assert program_not_found("".join(words)) == name


def test_names_of_exceptions_tell_only_where_they_are_asked_for() -> None:
    task = spoke("FileNotFoundError: Caught FileNotFo…\n")
    assert list(spoken_errors(task)) == []
    assert {name for name, _ in spoken_errors(task, exceptions=True)} == {"ENOENT"}


def test_a_plain_word_is_no_file() -> None:
    refs = (failed("ENOENT", 90, "/src/.git/refs/remotes/main"),)
    said = spoke("error: src refspec main does not match any\n", failures=refs)
    assert spoken_failure(said) is None
    named = spoke("cannot use /src/.git/refs/remotes/main\n", failures=refs)
    assert spoken_failure(named) == refs[0]
