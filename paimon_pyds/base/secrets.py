"""Texts for people: removal of secrets from texts and options, and of characters that control a terminal or deceive the
eye; and the format of counts and sizes.

This is the one place that knows what names a secret. Keys are those that Java Paimon takes for sensitive, in any case
and with any separator (``fs.oss.accessKeySecret``, ``s3.secret-key``, ``AccountKey``), and those of signed addresses
(``?sig=``, ``X-Amz-Signature``, ``X-Goog-Credential``; sources: AWS Signature Version 4, Google's signed URLs, Azure's
shared access signatures).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

HIDDEN = "***"
"""What stands in the place of a secret."""

_WORDS = (
    r"(?:secret|passw(?:or)?d|passphrase|token(?!iz|\.provider)|credential|authorization|signature"
    r"|connection[^a-z0-9\t-\r ]?string"
    r"|(?:access|account|private|api|shared|hmac|signing|encryption(?:[\w.-]{0,24}[^a-z0-9\t-\r ])?)[^a-z0-9\t-\r ]?key"
    r"|(?<![a-z])(?:sas|sig|pwd|jwt)(?![a-z]))"
)
_STEMS = (
    "secret", "passw", "passphrase", "token", "credential", "authorization", "signature", "string", "key", "sas", "sig",
    "pwd", "jwt",
)  # fmt: skip
"""Each match of `_WORDS` in a text of ASCII letters has one of these, in whatever case."""
# Patterns are compiled at their first use: no process needs all of them, and compiling takes 3 ms.
_NAME = f"(?i){_WORDS}"
_HEADERS = ("header.", "metadata.iceberg.rest.header.")
_COLUMN_IN_KEY = ("fields.", "file-index.")
_VALUE = (
    r"(?:'(?:[^'\\\n]|\\.|'')*(?:'|(?=\n)|\Z)|\"(?:[^\"\\\n]|\\.|\"\")*(?:\"|(?=\n)|\Z)"
    r"|(?:(?:bearer|basic|sharedkey)[ ]+)?[^\s,;)}&]+)"
)
_ASSIGNMENT = rf"(?i)({_WORDS}[\w.-]{{0,64}}(?:['\"`\]]?\s{{0,8}}(?:[=:]|%3D)|['\"],)\s{{0,8}}){_VALUE}"
_PASSWORD = r"(?i)(\b[a-z][a-z0-9+.-]{0,31}://)[^/@\s:]{0,256}:(?!\d{1,5}(?:/|\s|\Z))[^\s]{0,256}@"
"""``scheme://user:password@``; the password may have slashes. ``host:port/…@…`` does not match."""
_USER = r"(?i)(\b(?!(?:abfss?|wasbs?)://)[a-z][a-z0-9+.-]{0,31}://)[^/@\s]{1,256}@"
"""``scheme://user@``; in addresses of Azure a container stands there."""
_SIGNED = rf"(?i)[?&][\w.-]{{0,64}}{_WORDS}[\w.-]{{0,64}}="
_LEAST_CHARACTERS = 4
"""Characters from which a secret is blanked by its value: shorter ones occur in ordinary words."""

UNSEEN = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
"""A pattern: control characters, line and paragraph separators, marks of direction, halves of surrogate pairs."""
_LETTERS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def names_secret(key: str) -> bool:
    """Whether the value of an option of this name is a secret. A column's name within a key does not count; headers of
    requests to a catalog all do."""
    name = key.rpartition(".")[2] if key.startswith(_COLUMN_IN_KEY) else key
    return key.lower().startswith(_HEADERS) or re.search(_NAME, name) is not None


def parts_of_secret(value: str) -> Iterator[str]:
    """A secret, and the ones that it is made of, as a signed query is: each as it stands, and decoded."""
    from urllib.parse import unquote  # not for each import of this module

    yield value
    for name, part in (pair.partition("=")[::2] for pair in re.split("[&;]", value)):
        if part and names_secret(name):
            yield part
            yield unquote(part)


def holds_secret(text: str) -> bool:
    """Whether an address in the text has a password or a signature."""
    return "://" in text and any(re.search(pattern, text) is not None for pattern in (_PASSWORD, _SIGNED))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Blank out what looks like a secret: values of keys that name one, passwords and signatures in addresses.
    ``secrets``: these are blanked wherever they stand."""
    for secret in secrets:
        if len(secret) >= _LEAST_CHARACTERS:
            text = text.replace(secret, HIDDEN)
    if "://" in text and "@" in text:
        text = re.sub(_USER, rf"\1{HIDDEN}@", re.sub(_PASSWORD, rf"\1{HIDDEN}@", text))
    lowered = text.lower()
    if text.isascii() and not any(stem in lowered for stem in _STEMS):
        return text  # as most texts are; the pattern takes 80 µs to find nothing in an error of the system
    return re.sub(_ASSIGNMENT, rf"\1{HIDDEN}", text)


def shown(key: str, value: str) -> str:
    """The value of an option as it may be shown."""
    return HIDDEN if names_secret(key) else redact(value)


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options without secrets: for tasks, which do not need a table's secrets."""
    return {k: v for k, v in options.items() if not names_secret(k) and not holds_secret(v)}


class RedactedDict(dict[str, str]):
    """Options: a dict with its values as they are, whose text shows no secret."""

    def __repr__(self) -> str:
        return repr({key: shown(key, str(value)) for key, value in self.items()})


def raise_alone(error: BaseException, cause: BaseException | None = None) -> NoReturn:
    """Raise an error that does not hold the one which is being handled: that may have a secret, and ``from None`` hides
    it from traces only. ``cause``: what is shown as the cause."""
    try:
        raise error from cause
    finally:
        error.__context__ = None
        del error, cause  # else this frame would hold the error, and the error all that its callers have loaded


def scrubbed(error: BaseException, secrets: Iterable[str] = ()) -> BaseException:
    """The error itself, or where its text holds a secret a copy of it without: a cause is printed with its text."""
    text, secrets = str(error), list(secrets)
    redacted = redact(text, secrets)
    if redacted == text and not any(redact(str(held), secrets) != str(held) for held in _held(error)):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        named = () if error.filename is None else (redact(str(error.filename), secrets),)
        copy: BaseException = OSError(error.errno, redact(error.strerror or "", secrets), *named)
    else:
        copy = next((kind for kind in (OSError, ValueError) if isinstance(error, kind)), RuntimeError)(redacted)
    return copy.with_traceback(error.__traceback__)


def _held(error: BaseException) -> Iterator[BaseException]:
    """The errors that an error holds: its causes, and those that were handled when they were raised."""
    seen = {id(error)}
    waiting = [error.__cause__, error.__context__]
    while waiting:
        held = waiting.pop()
        if held is not None and id(held) not in seen:
            seen.add(id(held))
            waiting += [held.__cause__, held.__context__]
            yield held


def visible(text: str) -> str:
    r"""The text with control characters, line breaks and marks of direction written out, as ``\x1b`` or ``\u202e``."""
    return text if text.isprintable() else re.sub(UNSEEN, _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    return _LETTERS.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")


def counted(n: int, one: str, many: str = "") -> str:
    """``1 row``, ``4 rows``; ``many`` is the plural that is not made by an s."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def human_bytes(size: int) -> str:
    """A size for people."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size:,} B" if unit == "B" else f"{value:,.1f} {unit}"


def share_text(size: int, whole: int) -> str:
    """``1.0 of 5.2 MiB``."""
    of = human_bytes(whole)
    number, unit = human_bytes(size).split(" ")
    return f"{number if of.endswith(f' {unit}') else f'{number} {unit}'} of {of}"
