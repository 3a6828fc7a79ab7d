"""The one table of secret shapes, for logs and for the result guard.

:func:`redact` is what every log line passes through; :func:`shapes_in` names what a text that
leaves a guarded turn holds. Pure: the caller brings the secrets it knows, nothing is registered
here. Linear in the length of the text. A shape is a guess, a known secret is not: give the known.
"""

import re
from collections.abc import Iterable

import msgspec

REDACTED = "<redacted>"
MIN_SECRET_CHARS = 4  # replacing every "a" of a line would say what the secret is


class Shape(msgspec.Struct, frozen=True):
    """One shape; what the group ``keep`` matched stays readable.

    ``hints`` in lower case: where none of them stands, the pattern is not tried.
    ``certain``: so telling that the result guard withholds a text for it. The others also fit
    honest prose and only serve the log.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    certain: bool = True


_SHAPES = (
    Shape(
        "private key",
        ("private key",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"[A-Za-z0-9+/=\s:,.-]{0,20000}+"
        ),
    ),
    Shape(
        "relay token",
        ("|", "%7c"),
        re.compile(r"(?P<keep>https?://[^\s|\"'<>%]{1,300}+(?:\||%7[Cc]))[^\s\"'<>|]{8,}"),
    ),
    Shape(
        "password in a URL",
        ("://",),
        re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]{1,20}://)[^\s/?#@:\"'<>]*:[^\s/?#@\"'<>]+@", re.I),
    ),
    Shape("web token", ("eyj",), re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")),
    Shape(
        "cloud key id",
        ("akia", "asia", "abia", "acca"),
        re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ),
    Shape("cloud API key", ("aiza",), re.compile(r"\bAIza[\w-]{35}")),
    Shape(
        "code host token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ),
    Shape("code host token", ("github_pat_",), re.compile(r"\bgithub_pat_\w{22,}")),
    Shape("code host token", ("glpat-",), re.compile(r"\bglpat-[\w-]{20,}")),
    Shape("chat token", ("xox",), re.compile(r"\bxox[a-z]-[A-Za-z0-9-]{10,}")),
    Shape("chat token", (":",), re.compile(r"\b\d{6,12}:[A-Za-z0-9_-]{30,}")),
    Shape(
        "webhook",
        ("hooks.slack.com",),
        re.compile(r"(?P<keep>https://hooks\.slack\.com/)[^\s\"'<>]{8,}", re.I),
    ),
    Shape("model key", ("sk-",), re.compile(r"(?<![\w-])sk-[\w-]{16,}")),
    Shape(
        "package token",
        ("npm_", "pypi-"),
        re.compile(r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,})"),
    ),
    Shape(
        "user part of a URL",
        ("://",),
        re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]{1,20}://)[^\s/?#@\"'<>]+@", re.I),
        certain=False,
    ),
    Shape(
        "bearer",
        ("bearer", "authorization"),
        re.compile(
            r"(?P<keep>\bauthorization[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?:\w{1,16} )?|\bbearer )"
            r"[A-Za-z0-9._~+/=|-]{8,}",
            re.I,
        ),
        certain=False,
    ),
    Shape(
        "named secret",
        ("passw", "secret", "token", "key", "sign"),
        re.compile(
            r"(?P<keep>(?<![a-z])(?:password|passwd|secret|token|api[_-]?key|access[_-]?key"
            r"|sign(?:ature)?)[\"']?\s{0,3}[=:]\s{0,3}[\"']?)[^\s\"'&,;<>]{8,}",
            re.I,
        ),
        certain=False,
    ),
)
_CARD = re.compile(r"(?<![\d-])[2-6](?:[ -]?\d){12,18}(?![\d-])")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without the given secrets (longest first) and without anything of a known shape."""
    for secret in sorted({s for s in secrets if len(s) >= MIN_SECRET_CHARS}, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    for shape in _hinted(text):
        text = shape.pattern.sub(_hide, text)
    return _CARD.sub(lambda m: REDACTED if _is_card(m.group()) else m.group(), text)


def shapes_in(text: str, secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of the certain shapes that ``text`` holds, each once; never the text itself."""
    found = [shape.name for shape in _hinted(text) if shape.certain and shape.pattern.search(text)]
    if any(len(s) >= MIN_SECRET_CHARS and s in text for s in secrets):
        found.append("our own secret")
    if any(_is_card(match.group()) for match in _CARD.finditer(text)):
        found.append("card number")
    return tuple(dict.fromkeys(found))


def _hinted(text: str) -> list[Shape]:
    lower = text.lower()
    found: list[Shape] = []
    for shape in _SHAPES:  # every line of the log comes by: a generator each costs twice as much
        for hint in shape.hints:
            if hint in lower:
                found.append(shape)
                break
    return found


def _hide(match: re.Match[str]) -> str:
    return f"{match.groupdict().get('keep') or ''}{REDACTED}"


def _is_card(text: str) -> bool:
    """Luhn's check, over digits that do not all look the same."""
    digits = [int(c) for c in text if c.isascii() and c.isdigit()]
    if len(digits) < 13 or len(set(digits)) < 2:
        return False
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return total % 10 == 0
