"""Each known form of a credential is found however it is written; what looks alike stays."""

import json
import re
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.fake_secrets import Fake, fakes, leaked
from postmortem.knowledge.lookup import load_table
from postmortem.readers.present import words_in as native_words_in
from postmortem.report.escapes import unescaped
from postmortem.report.forms import forms, forms_in, words_in
from postmortem.report.private_keys import key_parts
from postmortem.report.redact import Redactor

FAKES = tuple(fakes())

WAYS: dict[str, Callable[[str], str]] = {
    "in a sentence": lambda text: f"the server said: {text}\nand hung up",
    "behind a line end": lambda text: f"said\\n{text}\\n",
    "behind a control": lambda text: f"said\\x00{text}\\x00",
    "in colour": lambda text: f"said \x1b[1;31m{text}\x1b[0m then",
    "in colour, escaped": lambda text: f"said \\x1b[1;31m{text}\\x1b[0m then",
    "in a repr": lambda text: repr(f"said\n{text}\n"),
    "in JSON": lambda text: json.dumps({"said": f"\n{text}\n"}),
    "in JSON in JSON": lambda text: json.dumps(json.dumps({"said": f"\n{text}\n"})),
    "in hexadecimal": lambda text: "\\n" + "".join(f"\\x{ord(c):02x}" for c in text) + "\\n",
    "in octal": lambda text: "\\n" + "".join(f"\\{ord(c):03o}" for c in text) + "\\n",
    "in an address": lambda text: "https://h/?q=%0A" + urllib.parse.quote(text, safe="") + "%0A",
}


@pytest.mark.parametrize("way", WAYS)
def test_credentials_are_masked(way: str) -> None:
    assert [fake.kind for fake in FAKES if _tells(fake, WAYS[way](fake.text))] == []


def _tells(fake: Fake, text: str) -> bool:
    masked = Redactor().text(text)
    plain = [masked, *(u.text for u in unescaped(masked))]
    return any(leaked(fake.secret, shown) for shown in plain)


def test_what_begins_alike_stays() -> None:
    texts = [f"loading {fake.unlike} now" for fake in FAKES]
    assert [text for text in texts if Redactor().text(text) != text] == []


def test_a_form_has_a_word_in_what_it_finds() -> None:
    for fake in FAKES:
        kinds = {form.name for form in forms_in(fake.text)}
        assert fake.kind in kinds
        long = "x" * 5000 + fake.text
        assert {form.name for form in forms_in(long, native_words_in)} >= kinds


def test_native_and_python_find_the_same_words() -> None:
    words = [word for form in forms() for word in form.words]
    text = ("ghp_ sk- @ \udcff AKIA" + "é" * 5000) + words[-1]
    assert list(native_words_in(words, text)) == list(words_in(words, text))


@pytest.mark.parametrize("kept", [30, 32])
def test_what_strace_cuts_is_masked_by_its_beginning(kept: int) -> None:
    cut = {row["id"] for row in load_table("secret_forms.toml")["form"] if "cut" in row}
    shown = {
        fake.kind: Redactor().text(f'write(3, "{fake.text[:kept]}"..., 80) = 80')
        for fake in FAKES
        if fake.kind in cut
    }
    assert len(shown) == len(cut) >= 15
    secrets = {fake.kind: fake.secret for fake in FAKES}
    assert {kind: text for kind, text in shown.items() if leaked(secrets[kind], text)} == {}


@pytest.mark.parametrize(
    "text",
    [
        "path.join.names.of.all.the.files",
        "sl.scatter_along_the_first_axis_1",
        "v1.0-1a2b3c4d-dirty",
        "https://a-host-with-a-long-name-17",
        "API-REFERENCE-OF-VERSION",
        "sdk-2024-07-19-build-of-the-day",
        "wandb login --relogin --host=local",
    ],
)
def test_what_is_cut_and_only_begins_alike_stays(text: str) -> None:
    for line in (f'write(3, "{text}"..., 80) = 80', f"{text}…"):
        assert Redactor().text(line) == line


@pytest.mark.parametrize("kept", [8, 12, 20])
def test_a_token_that_was_cut_is_masked(kept: int) -> None:
    token = "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    for cut in (f'"{token[:kept]}"...', f"{token[:kept]}…", f"{token[:kept]}..."):
        assert not leaked(token[4:], Redactor().text(f"write(3, {cut}"), 4)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "RuntimeError: AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMIK7MDENGbPx9",
            "RuntimeError: AWS_SECRET_ACCESS_KEY: [masked: AWS_SECRET_ACCESS_KEY]",
        ),
        ("env: HF_TOKEN=abc123def", "env: HF_TOKEN=[masked: HF_TOKEN]"),
        (
            'execve("/usr/bin/curl", ["curl", "-u", "ada:tiger", "h"], 0x7f) = 0',
            'execve("/usr/bin/curl", ["curl", "-u", "ada:[masked]", "h"], 0x7f) = 0',
        ),
        ("mysql -u root -ptiger db", "mysql -u root -p[masked] db"),
        ("https://h/#access_token=abcdef", "https://h/#access_token=[masked]"),
        ("at::Tensor& f(x &lt; y)", None),
        ("next_token=hello", None),
        ("KeyError: 'token'", None),
        ("progress 50%25 of \\u0041ll", None),
    ],
)
def test_text(text: str, masked: str | None) -> None:
    assert Redactor().text(text) == (masked or text)


NOISE = st.text(st.characters(codec="ascii"), max_size=60) | st.sampled_from(
    ("https://a:[masked", "'\\", "curl -u a:", "-----BEGIN X PRIVATE KEY-----", "%", "=", "sk-")
)


@settings(max_examples=300, deadline=None)
@given(before=NOISE, after=NOISE, number=st.integers(0, 160))
def test_a_token_is_masked_whatever_stands_around_it(before: str, after: str, number: int) -> None:
    fake = FAKES[number]
    assert not leaked(fake.secret, Redactor().text(f"{before} {fake.text} {after}"))


@pytest.mark.parametrize(
    "text", ["sk-", "docker login ", "-----BEGIN A PRIVATE KEY-----\n", "\\x41", "token:", "://a:"]
)
def test_the_cost_grows_with_the_text(text: str) -> None:
    def instructions(count: int) -> float:
        begin = time.process_time()
        Redactor().facts((text * count,))
        return time.process_time() - begin

    instructions(10)
    small = min(instructions(500) for _ in range(3))
    large = min(instructions(4000) for _ in range(2))
    assert large < 40 * small + 0.5  # eight times the text; squared it would be 64


# --- private keys

BODY = ["MIIEpAIBAAKCAQEAn0fTruE1q83vEjRWeJASNFZ4kBI0VniQAbCdEfGhIjKlMnOp" + c for c in "abcd"]
KEY = ["-----BEGIN RSA " + "PRIVATE KEY-----", *BODY, "Zm9v+A==", "-----END RSA PRIVATE KEY-----"]


def test_a_key_of_many_lines_is_masked_line_by_line() -> None:
    lines = [f"[rank3]: 2025-11-22 10:00:0{i} {line}" for i, line in enumerate(KEY)]
    others = ["step 12 loss 0.3", "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py"]
    texts = [*lines[:3], *others, *lines[3:], "abcdefgh"]
    masker = Redactor()
    told = "\n".join(masker.facts(tuple(texts)))
    assert not any(part in told for part in (*BODY, "Zm9v"))
    assert all(other in told for other in others)
    assert told.endswith("abcdefgh")


def test_lines_that_follow_no_key_are_none() -> None:
    assert list(key_parts([*BODY, "Zm9v+A=="])) == []
    assert list(key_parts(["\n".join(KEY), *BODY])) == []


# --- the place of what was escaped


def test_the_place_of_an_unescaped_character_is_known() -> None:
    text = 'a\\n%41\\\\x"\\u0042 c'
    for plain in unescaped(text):
        for at in range(len(plain.text)):
            start, end = plain.span(at, at + 1)
            assert start < end
            assert text[start] == plain.text[at] or text[start] in "\\%"
        assert plain.span(0, len(plain.text)) == (0, len(text))


def test_every_form_has_its_own_name_and_compiles() -> None:
    names = [form.name for form in forms()]
    assert [name for name in names if names.count(name) > 1] == []
    for form in forms():
        assert re.compile(form.pattern).groups <= 1
