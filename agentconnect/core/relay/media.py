"""The inbound media marker: what a task body says about files in the room (relay-wire.md §12).

Owns the stripping of ``[ag2space-media: …]``, its hints, which URL may be fetched and with the
bearer, and the name a fetched file gets on disk. Every attribute is a hint that anybody in the
room may have typed. Linear in the body's length (★2).
"""

import ipaddress
import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import MediaMarker

STRIP_PASSES = 8  # the last must find nothing (§4.4)
MAX_HINT_CHARS = 256
MAX_MIME_CHARS = 128

_TAG = re.compile(r"\[ag2space-media:")
_HINTS = {key: re.compile(rf"\b{key}=([^\s\]]+)") for key in ("mime", "name", "size", "kind")}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_URL_CHARS = re.compile(r"[\x21-\x5b\x5d-\x7e]+")  # visible ASCII without the backslash
_NAME_CHARS = re.compile(r"[^A-Za-z0-9._-]")
_NOT_ALNUM = re.compile(r"[^A-Za-z0-9]")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_DEFAULT_PORT = {"http": 80, "https": 443}
_EXTENSIONS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/jpg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "image/heic": ".heic",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "video/mp4": ".mp4",
    "application/zip": ".zip",
}


class Stripped(msgspec.Struct, frozen=True):
    """A body without its media markers; ``overflow``: it never came to rest and was dropped."""

    body: str
    markers: tuple[MediaMarker, ...] = ()
    overflow: bool = False


def read_media(body: str) -> Stripped:
    """The body without any marker, and the markers of the first pass, in order (§12.1, ★24)."""
    if not has_media(body):
        return Stripped(body)
    inner: list[str] = []
    text = remove_blocks(body, _TAG, inner.append)
    for _ in range(STRIP_PASSES - 1):
        if not has_media(text):
            return Stripped(text.strip(), tuple(_marker(part) for part in inner if part.strip()))
        text = remove_blocks(text, _TAG)
    return Stripped("", (), overflow=True)


def has_media(body: str) -> bool:
    """Whether a marker's tag stands in ``body``."""
    return "[ag2space-media:" in body


def remove_blocks(
    text: str, tag: re.Pattern[str], found: Callable[[str], object] | None = None
) -> str:
    """One strip pass: blocks up to the next ``]``, then an open one up to the end of the text.

    White space before a block goes with it. The tag is looked for first and the white space
    walked back over, so that a run of spaces is read once.
    """
    kept: list[str] = []
    position = 0
    while match := tag.search(text, position):
        end = text.find("]", match.end())
        if end < 0:
            break
        kept.append(text[position : match.start()].rstrip())
        if found is not None:
            found(text[match.end() : end])
        position = end + 1
    kept.append(text[position:])
    joined = "".join(kept)
    open_tag = tag.search(joined, joined.rfind("]") + 1)
    return joined[: open_tag.start()].rstrip() if open_tag else joined


def clean_mime(value: object) -> str:
    """A mime type as a word: no parameters, lower case, ``""`` unless it holds a slash."""
    if not isinstance(value, str):
        return ""
    word = _CONTROL.sub("", value[:4096]).partition(";")[0].strip().lower()[:MAX_MIME_CHARS]
    return replace_surrogates(word) if "/" in word else ""


def origin(url: object, base: object) -> tuple[bool, bool]:
    """(same origin, under base) as httpx would send ``url``; only the second gets the bearer.

    Judged on what a proxy might make of it too: an encoded dot, slash or backslash, an empty or
    dot segment, user info and anything that is no visible ASCII are not under base (★4b).
    """
    if not isinstance(url, str) or not isinstance(base, str):
        return False, False
    ours, theirs = _origin(base), _origin(url)
    if ours is None or theirs is None or ours != theirs:
        return False, False
    parts, root = urlsplit(url), urlsplit(base)
    prefix = root.path.rstrip("/")
    below = parts.path == prefix or parts.path.startswith(prefix + "/")
    return True, below and "@" not in parts.netloc and _plain_path(parts.path)


def is_listed(url: object, origins: Iterable[str]) -> bool:
    """Whether ``url`` is of one of these origins (``scheme://host[:port]``), without user info."""
    if not isinstance(url, str) or (theirs := _origin(url)) is None:
        return False
    return "@" not in urlsplit(url).netloc and any(_origin(each) == theirs for each in origins)


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open network, whatever it is wrapped in (§12.4)."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = _inner_address(found)
        if inner is not None:
            return is_public(str(inner))
    return found.is_global and not found.is_multicast


def _inner_address(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a translating or tunnelling IPv6 address leads to."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo


def on_disk(name: object, mime: object) -> tuple[str, str]:
    """(stem, extension) for a fetched file; the hint never is the name (§12.5)."""
    hint = name[-4096:] if isinstance(name, str) else ""
    extension = _EXTENSIONS.get(clean_mime(mime), "")
    stem = hint
    if not extension:
        stem, suffix = split_extension(hint)
        cleaned = _NOT_ALNUM.sub("", suffix)[:16]
        extension = f".{cleaned}" if cleaned else ""
    stem = _NAME_CHARS.sub("_", stem).strip("._-").replace(".", "_")[:100]
    return stem or "attachment", extension


def split_extension(name: str) -> tuple[str, str]:
    """(stem, what follows the last dot of the last path piece); leading dots start no extension."""
    slash = name.rfind("/") + 1
    dot = name.rfind(".")
    if dot < slash or not name[slash:dot].strip("."):
        return name, ""
    return name[:dot], name[dot + 1 :]


def _marker(inner: str) -> MediaMarker:
    url, rest = (*inner.split(None, 1), "")[:2]
    hint = {key: (m.group(1) if (m := rx.search(rest)) else "") for key, rx in _HINTS.items()}
    return MediaMarker(
        url=replace_surrogates(url),
        mime=clean_mime(hint["mime"]),
        name=_hint(hint["name"]),
        kind=_hint(hint["kind"]),
        size=_size(hint["size"]),
    )


def _hint(value: str) -> str:
    return replace_surrogates(_CONTROL.sub("", value)[:MAX_HINT_CHARS])


def _size(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 20):
        return 0
    number = int(value)
    return number if number < 2**62 else 0


def _origin(url: str) -> tuple[str, str, int] | None:
    """(scheme, host, port with the default filled in), or None if it cannot be fetched."""
    if not _URL_CHARS.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORT or not host:
        return None
    return parts.scheme, host, port if port is not None else _DEFAULT_PORT[parts.scheme]


def _plain_path(path: str) -> bool:
    """Whether no decoding of ``path`` moves it: no empty or dot segment, no encoded separator."""
    if any(segment in ("", ".", "..") for segment in path.split("/")[1:]):
        return False
    for _ in range(4):  # proxies have been seen to decode twice
        try:
            decoded = unquote_to_bytes(path).decode("utf-8")
        except UnicodeDecodeError:
            return False
        if decoded == path:
            return True
        gained = [c for c in "./\\" if decoded.count(c) > path.count(c)]
        if gained or _CONTROL.search(decoded):
            return False
        path = decoded
    return False
