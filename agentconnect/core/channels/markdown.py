"""Markdown as the HTML that Matrix clients show: no HTML of the writer's, no pictures."""

from functools import lru_cache
from typing import Any

_MAX_CHARS = 16_000  # some texts cost the square of their length


def html(text: str) -> str:
    """The HTML; "" where there is too much of it, and the text stands alone."""
    return str(_parser().render(text)).strip() if len(text) <= _MAX_CHARS else ""


@lru_cache(maxsize=1)
def _parser() -> Any:
    from markdown_it import MarkdownIt  # only where a channel asks for it

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.disable(["image", "html_block", "html_inline"])
    return parser
