"""Masks secrets in a report: what the process was given, wherever it shows up again.

A secret is learnt where its name gives it away (environment, command line, a local variable) and
masked in every text afterwards: a token from the environment comes back in an exception message,
an URL, a string on the stack. Values of well-known form are masked wherever they stand.

Facts are masked before any rule sees them (`facts`): what a rule cuts to make a title has no secret
left to be cut in two. A report is masked once more as a whole (`report`), and whatever writes one
does so itself if nobody has (`Report.masked`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Self, TypeVar, cast

from postmortem.patterns import Pattern
from postmortem.records import is_record, replace
from postmortem.report.blocks import BacktraceLine, KeyValues
from postmortem.report.forms import Form, Present, forms_in, words_in
from postmortem.report.leaks import (
    Find,
    find_assignments,
    find_in_argv,
    find_told,
    find_values,
    plain_forms,
)
from postmortem.report.model import Report
from postmortem.report.private_keys import key_parts
from postmortem.report.secrets import Suspicion, is_secret, looks_random, suspicion, written_forms
from postmortem.report.strings import replaced, strings

T = TypeVar("T")

SHORTEST = 6
"""Characters that a secret needs to be masked wherever it occurs. A shorter one would make holes
in innocent words; it is masked only where its name stands beside it."""

# An environment holds a handful of secrets. This bounds the time that a crafted one costs; what is
# beyond it is still masked where its name stands beside it.
_MOST_FORMS = 2_000

# An export of a log has a path for every file. What is masked at once, as the texts of a report
# are, is remembered besides: its texts are there anyway, and looking for all forms in each of them
# again takes longer than all else.
_MOST_TEXTS = 50_000
# From this size on, the words of all forms are looked for in one pass.
_LONG_TEXT = 1 << 16

# A text that was cut shows the beginning of a secret only.
_CUT = Pattern(r" ?…|\"?\.\.\.")
_SHORTEST_CUT = 8

# What is learnt from a text that nobody named: shorter, it could be an ordinary word.
_SHORTEST_LEARNT = 12

_QUOTED = Pattern(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")


class Redactor:
    """Knows the secrets of one process and masks them."""

    def __init__(self, present: Present = words_in) -> None:
        """Take what tells which words stand in a text: the native one is faster on a long text."""
        self._present = present
        self._roots: dict[str, str] = {}  # a form of a secret → the secret that it is a form of
        self._names: dict[str, str | None] = {}  # secret → name
        self._pattern: re.Pattern[str] | None = None
        self._texts: dict[str, str] = {}
        self._most = _MOST_TEXTS
        self._command_lines: dict[tuple[str, ...], tuple[str, ...]] = {}
        # What threads share, by its id, with the object itself, so that the id stays its own.
        self._shared: dict[int, tuple[object, object]] = {}
        self._masked: set[str] = set()

    @classmethod
    def from_process(
        cls,
        env: Iterable[tuple[str, str]],
        initial_env: Iterable[tuple[str, str]],
        argv: Sequence[str],
        present: Present = words_in,
    ) -> Self:
        """Return a redactor that knows the secrets in both environments and the command line."""
        redactor = cls(present)
        variables = dict.fromkeys([*env, *initial_env])  # mostly the same ones
        active = redactor._active([value for _, value in variables])
        for name, value in variables:
            redactor._learn_variable(name, value, active)
        redactor.learn_argv(argv)
        return redactor

    def learn_argv(self, argv: Sequence[str]) -> None:
        """Learn the secrets of one more command line."""
        for index, find in find_in_argv(argv):
            if find.learn:
                self._learn(find.name, argv[index][find.start : find.end])
        for word in argv:
            self._learn_inside(word, None)

    @property
    def count(self) -> int:
        """How many distinct secrets were masked so far; ask after `report`."""
        return len(self._masked)

    def env(self, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return environment variables with secret values masked."""
        return tuple((name, self._variable(name, value)) for name, value in pairs)

    def argv(self, args: Sequence[str]) -> tuple[str, ...]:
        """Return a command line with secret words and parts of words masked."""
        key = tuple(args)
        known = self._command_lines.get(key)
        if known is None:
            finds: dict[int, list[Find]] = {}
            for index, find in find_in_argv(args):
                finds.setdefault(index, []).append(find)
            masked = (self._cut_out(a, finds.get(i, [])) for i, a in enumerate(args))
            known = tuple(map(self.text, masked))
            if len(self._command_lines) >= _MOST_TEXTS:
                self._command_lines.clear()
            self._command_lines[key] = known
        return known

    def text(self, text: str) -> str:
        """Return text with known secrets, and values that are secret by their form, masked."""
        if len(text) < SHORTEST:
            return text
        known = self._texts.get(text)
        if known is None:
            # An address, of which a report has more than of anything else, is a secret only if
            # it is known as one.
            is_address = text.startswith("0x") and text.isalnum()
            if is_address and not (self._roots and self._known().search(text)):
                return text
            if len(self._texts) >= self._most:
                self._texts.clear()
                self._most = _MOST_TEXTS
            known = self._texts[text] = self._mask_text(text)
        return known

    def facts(self, facts: T) -> T:
        """Return facts with every string masked; what is secret in them is known from now on.

        Records that hold no secret stay the same objects.
        """
        commands: list[tuple[str, ...]] = []
        texts = strings(facts, commands)
        self._learn_texts(texts)
        self._prepare(texts)
        clean = all(self.text(text) == text for text in dict.fromkeys(texts))
        if clean and all(self.argv(words) == words for words in dict.fromkeys(commands)):
            return facts
        return replaced(facts, self.text, self.argv)

    def report(self, report: Report) -> Report:
        """Return the report with every string masked: blocks, diagnoses, body, problems, the rest.

        Names of JSON fields stay. Local variables with telling names are learnt first, so that
        their values are masked in parts of the report that come before them too.
        """
        for block in report.blocks:
            for line in getattr(block, "lines", ()):
                if isinstance(line, BacktraceLine):
                    self._learn_details(line)
        texts = strings(report)
        self._learn_keys(texts)
        self._prepare(texts)
        body = {key: self._body(value, key) for key, value in report.body.items()}
        masked = cast(Report, self._walk(replace(report, body={})))
        return replace(masked, body=body, masked=True)

    def know(self, secret: str) -> None:
        """Mask this wherever it stands."""
        self._learn(None, secret)

    def line(self, text: str, among: tuple[Form, ...]) -> str:
        """Return text masked, as `text` does; only forms `among` those given can match."""
        return self._mask_text(text, among) if len(text) >= SHORTEST else text

    # --- learning

    def _learn_variable(self, name: str, value: str, among: tuple[Form, ...]) -> None:
        if is_secret(name, value):
            self._learn(name, value)
        self._learn_inside(value, name, among)

    def _learn_inside(
        self, text: str, name: str | None, among: tuple[Form, ...] | None = None
    ) -> None:
        """Learn parts of a value: the password of an URL, a field of a connection string."""
        for find in find_values(text, among):
            self._learn(name, text[find.start : find.end])
        for find in find_assignments(text):
            if find.learn:
                self._learn(find.name, text[find.start : find.end])

    def _learn_texts(self, texts: Iterable[str]) -> None:
        """Learn from whole texts what may stand in others cut short, or without its name."""
        distinct = [text for text in dict.fromkeys(texts) if len(text) >= _SHORTEST_LEARNT]
        self._learn_keys(distinct)
        active = self._active(distinct)
        for text in distinct:
            finds = [*find_values(text, active)] if active else []
            for find in (*finds, *find_told(text)):
                value = text[find.start : find.end]
                sure = find.name is None or looks_random(value)
                if find.learn and sure and len(value) >= _SHORTEST_LEARNT:
                    self._learn(find.name, value)

    def _learn_keys(self, texts: Sequence[str]) -> None:
        for part in key_parts(texts):
            self._learn(None, part)

    def _learn(self, name: str | None, value: str) -> None:
        value = value.strip()
        self._names.setdefault(value, name)
        for form in written_forms(value):
            if len(self._roots) >= _MOST_FORMS:
                return
            if len(form.strip()) >= SHORTEST and form not in self._roots:
                self._roots[form] = value
                self._pattern = None
                self._texts.clear()
                self._command_lines.clear()
                self._shared.clear()

    def _learn_details(self, line: BacktraceLine) -> None:
        for name, value in line.details:
            for match in _QUOTED.finditer(value):
                inner = match[1] or match[2] or ""
                if is_secret(name, inner):
                    self._learn(name, inner)

    # --- masking

    def _variable(self, name: str, value: str) -> str:
        if is_secret(name, value):
            return self._mask(value.strip(), name)
        return self.text(value)

    def _mask(self, secret: str, name: str | None = None) -> str:
        self._masked.add(self._roots.get(secret, secret))
        if name is None or not re.fullmatch(r"-{0,2}[A-Za-z_][\w.-]{0,63}", name):
            return "[masked]"
        name = name.lstrip("-")
        # A name may itself hold a secret: PASSWORD=PASSWORD
        return "[masked]" if any(form in name for form in self._roots) else f"[masked: {name}]"

    def _cut_out(self, text: str, finds: Iterable[Find]) -> str:
        """Replace parts of a text by masks; where finds overlap, by one mask."""
        ordered = [*finds]
        if not ordered:
            return text
        ordered.sort(key=lambda find: (find.start, find.end))
        parts: list[str] = []
        position = 0
        for find in ordered:
            if find.start >= position and find.end > find.start:
                mask = self._mask(find.root or text[find.start : find.end], find.name)
                parts += [text[position : find.start], mask]
                position = find.end
            elif find.end > position:  # two that overlap: the mask of the first stands for both
                position = find.end
        return "".join([*parts, text[position:]])

    def _active(self, texts: Sequence[str]) -> tuple[Form, ...]:
        """Return the forms that may match in any of some texts: one look at all of them."""
        return forms_in("\n".join(plain_forms(texts)), self._present)

    def _prepare(self, texts: Sequence[str]) -> None:
        """Mask many texts at once: most forms can match in none of them."""
        known, every = self._texts, dict.fromkeys(texts)
        if len(known) > _MOST_TEXTS + 2 * len(every):
            known.clear()
        distinct = [text for text in every if len(text) >= SHORTEST and text not in known]
        active = self._active(distinct)
        for text in distinct:
            if not (text.startswith("0x") and text.isalnum()):
                known[text] = self._mask_text(text, active)
        self._most = len(known) + _MOST_TEXTS

    def _mask_text(self, text: str, among: tuple[Form, ...] | None = None) -> str:
        for _ in range(3):  # a mask and its surroundings can form another secret, in theory
            before = text
            if self._roots:
                text = self._known().sub(self._mask_known, text)
                text = self._cut_out(text, self._find_cut(text))
            if text == before:
                break
        if among is None and len(text) > _LONG_TEXT:
            among = self._active([text])
        text = self._cut_out(text, find_values(text, among))
        return self._cut_out(text, find_told(text))

    def _known(self) -> re.Pattern[str]:
        if self._pattern is None:  # the longest first: one secret may begin another
            forms = sorted(self._roots, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, forms)))
        return self._pattern

    def _mask_known(self, match: re.Match[str]) -> str:
        return self._mask(match[0], self._names.get(self._roots[match[0]]))

    def _find_cut(self, text: str) -> Iterator[Find]:
        for cut in _CUT.finditer(text):
            end = cut.start()
            for form, root in self._roots.items():
                start = text.rfind(form[:_SHORTEST_CUT], max(end - len(form), 0), end)
                if len(form) > _SHORTEST_CUT and start >= 0 and form.startswith(text[start:end]):
                    yield Find(start, end, self._names.get(root), root=root)

    # --- walking

    def _walk(self, value: object) -> object:
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, tuple):
            return tuple(self._walk(item) for item in value)
        if isinstance(value, BacktraceLine):
            value = replace(value, details=tuple(map(self._detail, value.details)))
        elif isinstance(value, KeyValues):
            value = replace(value, rows=tuple(map(self._fact_row, value.rows)))
        if is_record(value):
            changed = {name: self._walk(item) for name, item in vars(value).items()}
            return type(value)(**changed)
        if hasattr(value, "__dict__"):
            raise TypeError(f"{type(value).__name__} is no record: what it holds cannot be masked")
        return value

    def _body(self, value: object, key: str) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            if key == "env":
                return {name: self._env_field(name, item) for name, item in value.items()}
            return self._fields(value)
        if isinstance(value, list | tuple):
            if key == "argv" and all(isinstance(item, str) for item in value):
                return list(self.argv(value))
            if key == "frames":
                return self._frames(value)
            return [self._body(item, key) for item in value]
        return value

    def _frames(self, frames: Sequence[object]) -> object:
        """Return a stack masked; threads that stand in the same place share it."""
        known = self._shared.get(id(frames))
        if known is None:
            known = frames, [self._frame(frame) for frame in frames]
            self._shared[id(frames)] = known
        return known[1]

    def _frame(self, frame: object) -> object:
        """Return a frame masked; threads that stand in the same function share it."""
        known = self._shared.get(id(frame))
        if known is None:
            known = self._shared[id(frame)] = frame, self._body(frame, "frames")
        return known[1]

    def _fields(self, fields: dict[str, object]) -> dict[str, object]:
        """Return the fields of a JSON object; nearly all are short texts, numbers and nulls."""
        masked: dict[str, object] = {}
        texts = self._texts
        for name, item in fields.items():
            if type(item) is str:
                short = len(item) < SHORTEST
                masked[name] = item if short else texts.get(item) or self.text(item)
            elif not item or item is True or type(item) is int:
                masked[name] = item
            else:
                masked[name] = self._body(item, str(name))
        return masked

    def _env_field(self, name: str, value: object) -> object:
        return self._variable(name, value) if isinstance(value, str) else self._body(value, name)

    def _detail(self, pair: tuple[str, str]) -> tuple[str, str]:
        name, value = pair
        finds = [
            Find(match.start() + 1, match.end() - 1, name)
            for match in _QUOTED.finditer(value)
            if is_secret(name, match[1] or match[2] or "")
        ]
        if not finds and looks_random(value) and is_secret(name, value):
            finds = [Find(0, len(value), name)]
        return name, self._cut_out(value, finds)

    def _fact_row(self, pair: tuple[str, str]) -> tuple[str, str]:
        # Rows have labels in prose ("private   3.1 GiB"): only a plain name of a secret counts.
        name, value = pair
        if suspicion(name) is Suspicion.STRONG and " " not in value and is_secret(name, value):
            return name, self._mask(value.strip(), name)
        return pair
