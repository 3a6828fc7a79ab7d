"""The credential: onboarding string, token file, rotation, and what may be said of a URL.

Owns the split of ``<url>|<secret>``, the reading of a token file's text, the building of a
:class:`Credential` and the judgement of a rotation (relay-wire.md §2). It never reads a file and
no sentence it makes holds a value: a refusal names layers, keys and components.
"""

import re
from urllib.parse import SplitResult, urlsplit

import msgspec

from agentconnect.core.errors import SettingsError

TOKEN_NAMES = ("AGENT_CONNECT_TOKEN", "REMOTE_TASK_TOKEN", "AG2_REMOTE_TOKEN")
URL_NAMES = ("REMOTE_TASK_URL", "AG2_REMOTE_URL")
MAX_SECRET_CHARS = 4096
UNPARSEABLE = "<unparseable url>"
BAD_START = (
    "The address in the token must start with http:// or https://; "
    "a whole token looks like https://ADDRESS|SECRET."
)

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_ASSIGNMENT = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)([ \t]*)=(?!=)(.*)", re.S)
_SECRET = re.compile(r"[\x21-\x7e]{1,4096}")
_INSTANCE = re.compile(r"[A-Za-z0-9_-]{1,32}")
_ENCODED_PIPE = re.compile(r"%7[Cc]")
_OTHER_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|https?:", re.I)
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1")


class CredentialError(SettingsError):
    """The credential cannot be used; ``code`` says why in one word. Never holds a value."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Secret:
    """A bearer that no repr, log line or error can show; :meth:`reveal` is for the header alone."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The bearer itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(<hidden>)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not pickled")


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """Where to call and with which bearer; ``source`` names the layer that supplied the token."""

    gateway: str
    secret: Secret
    source: str = ""
    warnings: tuple[str, ...] = ()


class TokenFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a token file's text says: the URL line's value, the token, and remarks for the owner."""

    url: str = ""
    token: Secret = Secret("")
    warnings: tuple[str, ...] = ()


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of reading the token file again; ``refused`` is a sentence without values."""

    credential: Credential
    rotated: bool = False
    refused: str = ""


def parse_token(raw: object) -> tuple[str, str]:
    """Split an onboarding string into (gateway URL, secret); neither half is decoded (§2.1)."""
    if not isinstance(raw, str):
        return "", ""
    if not _is_url(raw):
        return "", raw
    url, pipe, secret = raw.partition("|")
    if pipe:
        return url, secret
    encoded = _ENCODED_PIPE.search(raw)
    if encoded:
        return raw[: encoded.start()], raw[encoded.end() :]
    return "", raw


def read_token_file(text: str) -> TokenFile:
    """Read a token file's text: known names by precedence, else the first plain line (§2.2)."""
    values: dict[str, str] = {}
    plain = ""
    warnings: list[str] = []
    for number, line in enumerate(_LINE_BREAK.split(text.removeprefix("\ufeff")), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            plain = plain or line
            continue
        name, gap, value = match.groups()
        if name in TOKEN_NAMES or name in URL_NAMES:
            values[name] = value.strip().strip("'\"")
            if gap or value[:1].isspace():
                warnings.append(f"line {number} of the token file has spaces around its `=`")
    if not any(name in values for name in TOKEN_NAMES):
        token = plain
    else:
        token = _first(values, TOKEN_NAMES)
    return TokenFile(url=_first(values, URL_NAMES), token=Secret(token), warnings=tuple(warnings))


def build(
    *,
    token: str | None = None,
    file_text: str | None = None,
    base_url: str | None = None,
    source: str = "",
) -> Credential:
    """Make the credential of §2.3; nothing is guessed.

    Raises: CredentialError (``no_credential no_token url_as_token bad_token no_gateway
    bad_gateway``).
    """
    file = read_token_file(file_text or "")
    given = (token or "").strip()
    if not given and file_text is None:
        raise CredentialError("no_credential", "No token was given, and no token file names one.")
    url, secret = parse_token(given or file.token.reveal().strip())
    _check_secret(secret, bare=not url)
    warnings = list(file.warnings)
    separate = _gateway(base_url or "")
    gateway = _gateway(url) or _gateway(file.url) or separate
    if not gateway:
        raise CredentialError("no_gateway", _no_gateway(secret))
    problem = gateway_problem(gateway)
    if problem:
        raise CredentialError("bad_gateway", f"The gateway URL {problem}.")
    if separate and separate != gateway and gateway_difference(separate, gateway):
        warnings.append("the gateway that came with the token wins over the separate gateway URL")
    if is_clear_text(gateway):
        warnings.append("the gateway is plain http: the token travels in clear text")
    return Credential(
        gateway=gateway, secret=Secret(secret), source=source, warnings=tuple(warnings)
    )


def reload(current: Credential, file_text: str | None) -> Reload:
    """Judge what the token file says now: only the secret is ever swapped (§2.4)."""
    file = read_token_file(file_text or "")
    url, secret = parse_token(file.token.reveal().strip())
    if not secret:
        return Reload(credential=current)
    for named in (_gateway(url), _gateway(file.url)):
        differing = gateway_difference(named, current.gateway) if named else ()
        if differing:
            parts = ", ".join(differing)
            return Reload(
                credential=current,
                refused=f"the token file names another gateway ({parts}); moving takes a restart",
            )
    if secret == current.secret.reveal():
        return Reload(credential=current)
    try:
        _check_secret(secret, bare=not url)
    except CredentialError as error:
        return Reload(credential=current, refused=str(error))
    return Reload(credential=msgspec.structs.replace(current, secret=Secret(secret)), rotated=True)


def gateway_problem(url: str) -> str:
    """Why ``url`` cannot be a gateway, as the rest of a sentence; ``""`` if it can."""
    if not url.isascii() or any(c <= " " or c in '\\"<>^`{|}\x7f' for c in url):
        return "holds a character that no URL holds"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "cannot be parsed"
    if parts.scheme not in ("http", "https"):
        return "does not begin with http:// or https://"
    if not host:
        return "has no host"
    if "@" in parts.netloc:
        return "holds user information; leave it out"
    if "?" in url or "#" in url:
        return "holds a query or a fragment; leave it out"
    return ""


def gateway_difference(left: str, right: str) -> tuple[str, ...]:
    """The names of the components in which two gateway URLs differ; () if they are the same."""
    try:
        one, two = urlsplit(_gateway(left)), urlsplit(_gateway(right))
    except ValueError:
        return () if _gateway(left) == _gateway(right) else ("url",)
    pairs = {
        "scheme": (one.scheme, two.scheme),
        "path": (one.path, two.path),
        "query": (one.query, two.query),
        "fragment": (one.fragment, two.fragment),
    }
    for name, a, b in zip(
        ("user info", "host", "port"), _authority(one), _authority(two), strict=True
    ):
        pairs[name] = (a, b)
    return tuple(name for name, (a, b) in pairs.items() if a != b)


def is_clear_text(gateway: str) -> bool:
    """Whether the bearer would cross a network unencrypted: http to anything but loopback."""
    try:
        parts = urlsplit(gateway)
        return parts.scheme == "http" and not _LOOPBACK.fullmatch(parts.hostname or "")
    except ValueError:
        return True


def redact_url(url: object) -> str:
    """The part of a URL that may be written down: scheme, host, port, path (§2.5)."""
    if not isinstance(url, str):
        return UNPARSEABLE
    try:
        parts = urlsplit(url)
    except ValueError:
        return UNPARSEABLE
    path = _ENCODED_PIPE.split(parts.path.partition("|")[0])[0]
    if not parts.netloc:
        # not a URL: what stands before an @ may be a password
        text = re.split(r"[?#|]|%7[Cc]", url, maxsplit=1)[0]
        return UNPARSEABLE if "@" in text else text
    _, host, port = _authority(parts)
    if "|" in host + port or _ENCODED_PIPE.search(host + port):
        return UNPARSEABLE
    scheme = f"{parts.scheme}:" if parts.scheme else ""
    return f"{scheme}//{host}{':' + port if port else ''}{path}"


def instance_name(name: object) -> str | None:
    """``name`` if it can name an instance (it becomes a folder), else None; never mangled."""
    return name if isinstance(name, str) and _INSTANCE.fullmatch(name) else None


def _is_url(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://"))


def _gateway(url: str) -> str:
    return url.strip().rstrip("/")


def _first(values: dict[str, str], names: tuple[str, ...]) -> str:
    return next((values[name] for name in names if values.get(name)), "")


def _authority(parts: SplitResult) -> tuple[str, str, str]:
    """(user info, host in lower case, port) as written, without judging the port."""
    user, at, rest = parts.netloc.rpartition("@")
    host, colon, port = rest.rpartition(":")
    if not colon or "]" in port:  # no port, or the colons of an IPv6 host
        host, port = rest, ""
    return user + at, host.lower(), port


def _no_gateway(secret: str) -> str:
    """What to say of a token without an address; one with a separator had something there."""
    if "|" in secret or _ENCODED_PIPE.search(secret):
        return BAD_START
    return "The token names no gateway, and no gateway URL was given beside it."


def _check_secret(secret: str, *, bare: bool) -> None:
    """``bare``: it came without an address, so one that is misspelt may be in it."""
    if not secret:
        raise CredentialError("no_token", "The token holds no secret.")
    if bare and not _is_url(secret) and _OTHER_ADDRESS.match(secret):
        raise CredentialError("bad_gateway", BAD_START)
    if _is_url(secret):
        raise CredentialError(
            "url_as_token", "The token is a URL without a secret; paste the whole token."
        )
    if not _SECRET.fullmatch(secret):
        raise CredentialError(
            "bad_token",
            f"The secret must be 1 to {MAX_SECRET_CHARS} visible ASCII characters without spaces.",
        )
