"""Half characters: a lone surrogate is in many a text that was cut, and no UTF-8 can hold it."""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def has_surrogate(text: str) -> bool:
    """Whether ``text`` cannot be encoded."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def replace_surrogates(text: str) -> str:
    """``text`` with every lone surrogate replaced by U+FFFD (relay-wire.md §1.3, ★1)."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
