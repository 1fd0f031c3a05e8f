"""Tells what is secret: by the name of a variable or option, and by the look of a value.

A miss hands out somebody's key, a false alarm hides a fact that the reader needs. So a name that
only sometimes means a secret (`AUTH`, `SESSION`, `KEY`) needs a value that could be one, and the
vocabulary of language models (`MAX_TOKENS`, `PAD_TOKEN`) is known.
"""

import functools
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum

from postmortem.patterns import Pattern


class Suspicion(IntEnum):
    """How much a name says that its value is a secret."""

    NONE = 0
    WEAK = 1
    """Only a value that looks random is one: `KEY`, `SALT`, `WEBHOOK`."""
    MEDIUM = 2
    """A value is one unless it is plainly something else: `AUTH`, `SESSION`, `COOKIE`."""
    STRONG = 3
    """`PASSWORD`, `SECRET`, `API_KEY`, `TOKEN`."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STRONG = _words(
    "TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE APIKEY APIKEYS AUTHTOKEN"
    " ACCESSKEY SECRETKEY PRIVATEKEY CREDENTIAL CREDENTIALS CREDS JWT BEARER CONNSTR PSK"
)
_MEDIUM = _words("AUTH AUTHORIZATION SESSION SESSIONID COOKIE COOKIES PRIVATE DSN SAS PASS")
_WEAK = _words("KEY KEYS SALT WEBHOOK SIGNATURE HMAC PIN PWD PW CERT SEED NONCE LICENSE")
_STRONG_PAIRS = _words(
    "API_KEY API_KEYS ACCESS_KEY ACCESS_KEYS SECRET_KEY PRIVATE_KEY ENCRYPTION_KEY SIGNING_KEY"
    " ACCOUNT_KEY AUTH_KEY MASTER_KEY SHARED_KEY STORAGE_KEY DEPLOY_KEY SERVICE_KEY SESSION_KEY"
    " SSH_KEY HMAC_KEY ADMIN_KEY CLIENT_KEY WANDB_KEY CONNECTION_STRING CONNECTION_STRINGS"
    " DB_PWD MYSQL_PWD DB_PASS USER_PASS AUTH_PASS"
)
# Old names are written without a seam: PGPASSWORD, DBPASSWORD, GITHUBTOKEN.
_STRONG_ENDINGS = ("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "APIKEY", "TOKEN")

# Without a seam too, as MYPASS, DBPASS, SMTPPASS; these only end so.
_NO_PASSWORDS = _words("BYPASS COMPASS ENCOMPASS TRESPASS SURPASS LOWPASS HIGHPASS BANDPASS")

# What the value is about, when it is not the secret itself: SSH_AUTH_SOCK, TOKEN_FILE,
# XDG_SESSION_ID, DBUS_SESSION_BUS_ADDRESS, DESKTOP_SESSION.
_ABOUT = _words(
    "SOCK SOCKET FILE FILENAME PATH DIR DIRECTORY FOLDER URL URI ENDPOINT HOST HOSTNAME PORT"
    " ADDRESS ADDR IP DNS SUBNET NETWORK REGION TYPE METHOD MODE NAME USERNAME ID IDS TTL TIMEOUT"
    " EXPIRY EXPIRES EXPIRATION LIFETIME AGE ALGORITHM ALGO VERSION PROVIDER BACKEND PLUGIN ENABLED"
    " DISABLED ENABLE DISABLE REQUIRED ISSUER AUDIENCE SCOPE SCOPES BUS DESKTOP CLASS MANAGER STORE"
    " LEVEL SEAT LEADER PARALLELISM COUNT LENGTH LEN SIZE LIMIT HELPER INTERVAL RETRIES"
)
# Tokens of a language model, and counts of them.
_MODEL_WORDS = _words(
    "MAX MIN NUM N NB TOTAL AVG PER NEW COUNT LIMIT LEN LENGTH SIZE BUDGET BATCH EOS BOS PAD UNK"
    " MASK SEP CLS IMAGE AUDIO VIDEO SPECIAL START STOP END EXTRA ADDED VOCAB TYPE IDS ID PROMPT"
    " OUTPUT INPUT CONTEXT SEQ SECOND SECONDS STEP DRAFT SPECULATIVE CHUNK PREFILL TRAIN DROP"
)
# Values that no one uses as a secret.
_PLAIN_VALUES = _words(
    "true false yes no on off none null nil default auto enabled disabled required optional always"
    " never basic bearer digest kerberos ldap oauth oauth2 oidc unknown unset empty missing masked"
    " redacted"
)
_NOT_SECRET_NAMES = _words("PWD OLDPWD GPG_KEY")  # GPG_KEY: python's Docker image

_NUMBER = Pattern(r"[-+]?\d{1,20}(\.\d+)?([eE][-+]?\d+)?|0x[0-9a-fA-F]+")
_PATH = Pattern(
    r"(~|\.{1,2})?(/[\w.@+ -]+)+/?|[A-Za-z0-9_.-]+\.(json|pem|key|crt|txt|ya?ml|toml|ini|py|sh)"
)
_PLACEHOLDER = Pattern(r"</?[a-z_|:]+>|\[[A-Z_]+\]|\[masked[^\]]*\]|\*+|[xX]+|\$\{\w+\}|\$[A-Z_]+")
_SEAM = Pattern(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@functools.lru_cache(maxsize=1024)
def suspicion(name: str) -> Suspicion:
    """Return how much a variable's or option's name says that its value is secret."""
    words = [word for word in _SEAM.split(name) if word]
    upper = [word.upper() for word in words]
    # An all-capital name has its seams at underscores; "APIKey" and "apiKey" have them inside.
    joined = "_".join(upper)
    if not upper or joined in _NOT_SECRET_NAMES or upper[-1] in ("ERROR", "EXCEPTION"):
        return Suspicion.NONE
    known = set(upper)
    pairs = {f"{a}_{b}" for a, b in itertools.pairwise(upper)}
    level = Suspicion.NONE
    if known & _STRONG or pairs & _STRONG_PAIRS or any(w.endswith(_STRONG_ENDINGS) for w in upper):
        level = Suspicion.STRONG
    elif known & _MEDIUM or any(w.endswith("PASS") and w not in _NO_PASSWORDS for w in upper):
        level = Suspicion.MEDIUM
    elif known & _WEAK:
        level = Suspicion.STRONG if upper[0] in ("AWS", "AZURE") else Suspicion.WEAK
    if level is Suspicion.NONE:
        return level
    if known & {"TOKEN", "TOKENS"} and known & _MODEL_WORDS and "AWS" not in known:
        return Suspicion.WEAK
    if pairs & {"ACCESS_KEY", "PRIVATE_KEY"} and upper[-1] == "ID":  # AWS_ACCESS_KEY_ID
        return Suspicion.STRONG
    if upper[-1] in _ABOUT:
        return Suspicion.WEAK if level is Suspicion.STRONG else Suspicion.NONE
    if level is Suspicion.MEDIUM and known & {"DESKTOP", "BUS", "MANAGER"}:
        return Suspicion.NONE
    return level


def is_secret(name: str, value: str) -> bool:
    """Return whether a value under this name has to be masked."""
    level = suspicion(name)
    if level is Suspicion.NONE or not value.strip():
        return False
    if value.strip().casefold() in _PLAIN_VALUES or _PLACEHOLDER.fullmatch(value):
        return False
    if level is Suspicion.STRONG:
        return not _is_harmless(name, value)
    if level is Suspicion.MEDIUM:
        plain_word = re.fullmatch(r"[a-z]{1,10}|[A-Z]{1,10}", value)
        return not (plain_word or _NUMBER.fullmatch(value) or _is_path(value) or len(value) < 6)
    return looks_random(value)


def _is_harmless(name: str, value: str) -> bool:
    # A password may be a number or a word; a token of digits counts something, and what stands
    # under CREDENTIALS is often the path of the file with them.
    upper = name.upper()
    if "PASS" in upper or "ACCESS" in upper:  # an AWS secret key may look like a path
        return False
    if _is_path(value):
        return not any(_mixed(part) for part in re.split("[/.]", value)) and value.count("/") != 1
    return value.isdigit() and (len(value) <= 5 or upper.endswith("TOKENS"))


def _mixed(text: str) -> bool:
    tests = (str.isdigit, str.isupper, str.islower)
    return len(text) >= 8 and all(any(map(test, text)) for test in tests)


def _is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None


def looks_random(value: str) -> bool:
    """Return whether a value could be a generated key: one long word of mixed characters.

    Names with a number in them (layers.0.attention.weight) are told apart by their parts, and by
    their information: 3 bits a character lie between words (2 to 2.8 bits at this length) and hex
    digits (3.2 and more).
    """
    if len(value) < 16 or re.search(r"\s", value) or _is_path(value):
        return False
    counts = Counter(value).values()
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
    if bits < 3.0 or not any(map(str.isdigit, value)):
        return False
    if re.fullmatch(r"[0-9a-fA-F-]{20,}", value):
        return True
    parts = re.split(r"[./:,_-]", value)
    return any(_mixed(part) or _is_long_mix(part) for part in parts)


def _is_long_mix(text: str) -> bool:
    return len(text) >= 16 and any(map(str.isdigit, text)) and any(map(str.isalpha, text))


# A private key to its END, however its lines are joined; without an END (gdb and logs cut long
# strings) as far as there is base64.
_PEM = (
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----BEGIN)[\s\S]){0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:[A-Za-z0-9+/=\r\n\t]|\\+[nrt]| (?=[A-Za-z0-9+/=]{40}))*)"
)
PRIVATE_KEY = Pattern(_PEM)
"""Begins with `KEY_BEGINS`; apart from `VALUE` because it takes 2 ms to compile."""
KEY_BEGINS = "-----BEGIN"

_TELLING = (
    "pass", "secret", "token", "key", "cred", "auth", "cookie", "psk", "jwt", "dsn", "conn",
    "session", "pwd", "salt", "hmac", "signature", "webhook", "private",
)  # fmt: skip


def may_tell(text: str) -> bool:
    """Return False if no name in this text can be a telling one."""
    lower = text.lower()
    for word in _TELLING:  # noqa: SIM110  as above
        if word in lower:
            return True
    return False


ASSIGNMENT = Pattern(
    r"(?P<name>[A-Za-z_][\w.-]{0,60})(?:\\{0,4}[\"'])?\]?"
    r"(?P<sign>\s{0,9}(?:=>?|:(?![:/]))\s{0,9}|(?<=[\"'])\s{0,9},\s{0,9}(?=[\"']))"
)
"""``name = ``, ``"name": ``, ``"name", ``; what follows is `ASSIGNED`."""

QUOTED = Pattern(
    r"\\{1,4}\"(?P<escaped>[^\"\\\n]+)\\{1,4}\""  # JSON inside of a string
    r"|[bru]{0,2}\"(?P<double>(?:[^\"\\\n]|\\.)+)\"|[bru]{0,2}'(?P<single>(?:[^'\\\n]|\\.)+)'"
)
"""``"value"``, ``'value'``, ``\\"value\\"``."""

BARE = Pattern(r"[^\s\"'`,;&|(){}\[\]<>]+")
"""A value without quotes goes so far."""

NEXT_NAME = Pattern(r"[A-Za-z_]{2,60}=[^=\s]")
"""What stands behind a name where the value is another assignment: ``env -u TOKEN=A=b``."""


def written_forms(value: str) -> Iterator[str]:
    """Yield a secret as it may be written: quoted, escaped, in an URL, line by line."""
    import urllib.parse  # many processes have no secret

    yield value
    yield repr(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(value)[1:-1]
    yield urllib.parse.quote(value, safe="", errors="replace")
    if "'" in value:
        yield value.replace("'", "'\"'\"'")  # shlex.join
    if "%" in value:
        yield urllib.parse.unquote(value)
    pieces = re.split(r"(?:\\+[rn]|[\r\n])+", value)
    if len(pieces) > 1:
        yield from (piece.strip() for piece in pieces)
