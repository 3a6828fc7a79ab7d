"""Why an outgoing file was not sent, in words for the room (relay-wire.md §11)."""

_WORDS = {
    "no_path": "no file was named",
    "not_a_path": "that is not a path",
    "no_roots": "this worker is not set up to send files",
    "relative_without_base": "the path is relative to nothing",
    "outside": "it is outside the folders this worker may send from",
    "swapped": "a link stands in its path",
    "unopenable": "it cannot be opened",
    "not_regular": "it is not an ordinary file",
    "multi_linked": "it has a second name elsewhere on the disk",
    "grew": "it changed while it was read",
    "unreadable": "it cannot be read",
    "private": "it is private to this machine",
    "room_unknown": "the room is not known",
    "unreachable": "the room takes no files just now",
    "refused": "the relay did not take it",
    "maybe": "it may not have been sent: the relay's answer was lost",
}
_MIB = 1024 * 1024


def refusal_words(code: str, *, size: int = 0, limit: int = 0) -> str:
    """The reason in words. ``missing`` stays as it is: the composer has its own words for that."""
    if code == "too_big":
        return f"{_sizes(size, limit)} is allowed"
    return _WORDS.get(code, code)


def _sizes(size: int, limit: int) -> str:
    """Both sizes in MB, or in bytes where rounding would make them look equal (★28)."""
    big, small = f"{size / _MIB:.1f} MB", f"{limit / _MIB:.1f} MB"
    if big == small:
        big, small = f"{size} bytes", f"{limit} bytes"
    return f"it has {big}, at most {small}"
