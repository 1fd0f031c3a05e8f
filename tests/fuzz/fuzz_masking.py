"""Coverage-guided fuzzing of masking, with atheris.

    fuzz_masking.py seeds FOLDER
    fuzz_masking.py FOLDER... -runs=3000 -seed=1 ...

The second is a libFuzzer with its options. What must hold for any text: masking ends and raises
nothing; a second pass finds nothing that the first one left; a credential between spaces is masked,
whatever stands around it. Of an input the first byte chooses the credential, the rest is the text.
"""

import sys
from pathlib import Path

from builders.fake_secrets import fakes, leaked

# Commands and headers need their own surroundings; tokens need none.
_MOST = 20  # characters; a beginning, which the text may have too, is shorter
TOKENS = tuple(fake for fake in fakes() if fake.kind.endswith(")"))


def check(data: bytes) -> None:
    """Mask what the bytes make; raises AssertionError where a credential is told."""
    from postmortem.report.log_text import LogMasker
    from postmortem.report.redact import Redactor

    if not data:
        return
    fake = TOKENS[data[0] % len(TOKENS)]
    text = data[1:].decode("utf-8", "surrogateescape")
    half = len(text) // 2
    given = f"{text[:half]} {fake.text} {text[half:]}"
    masked = Redactor().text(given)
    assert not leaked(fake.secret, masked, _MOST), (given, masked)
    (of_facts,) = Redactor().facts((given,))
    assert not leaked(fake.secret, of_facts, _MOST), (given, of_facts)
    assert not leaked(fake.secret, LogMasker().mask(given), _MOST), given
    Redactor().argv(given.split(" "))


def write_seeds(folder: Path) -> None:
    """Write a seed for each known form."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, fake in enumerate(fakes(seed=2)):
        (folder / f"form{number}").write_bytes(bytes([number % 256]) + fake.text.encode())


def main() -> None:
    """Write seeds, or hand over to libFuzzer."""
    if sys.argv[1:2] == ["seeds"]:
        write_seeds(Path(sys.argv[2]))
        return
    import atheris

    with atheris.instrument_imports(include=["postmortem.report"]):
        check(b"\0")
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
