"""Message text as safe HTML: Markdown, no HTML in it, no pictures, links to http and mailto only.

The page puts this into the document as it is, so nothing but what is listed here may come out.
"""

from functools import lru_cache
from html import escape
from urllib.parse import urlsplit

from markdown_it import MarkdownIt

_SCHEMES = frozenset({"http", "https", "mailto"})
_MAX_CHARS = 16_000  # some texts cost the square of their length


@lru_cache(maxsize=512)
def html(body: str) -> str:
    """The HTML of one message; a very long one is shown as it was written."""
    if len(body) > _MAX_CHARS:
        return f"<pre>{escape(body)}</pre>\n"
    return str(_parser().render(body))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.disable(["image", "html_block", "html_inline"])
    parser.validateLink = _allowed  # type: ignore[method-assign]
    parser.add_render_rule("link_open", _link_open)
    return parser


def _allowed(url: str) -> bool:
    try:
        return urlsplit(url.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _link_open(self, tokens, index, options, env):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    tokens[index].attrSet("target", "_blank")
    return self.renderToken(tokens, index, options, env)
