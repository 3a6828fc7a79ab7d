"""The final answer of one turn: the last response block that asked for no tool (§8).

One :class:`Capture` is a value of one turn that carries delivery; a turn without has none. It holds
no more than two blocks of bounded length. What an agent's updates mean here is ``acp_capture``.
"""

from agentconnect.core.daemon.text import cut, first_units
from agentconnect.core.destination import MAX_TEXT_UNITS, units
from agentconnect.core.surrogates import replace_surrogates

MAX_BLOCK_UNITS = MAX_TEXT_UNITS + 1
"""One more than may be sent, so that what was dropped still shows as a cut."""

END_TURN = "end_turn"
"""The one stop reason that submits."""

_FILLER = "\ufffd"


class _Block:
    """The text of one open response block, bounded."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_BLOCK_UNITS
        self.tool = False

    def append(self, text: str) -> None:
        if self.tool or not text or not self._room:
            return  # a block with a tool is never delivered, so its text is not kept
        text = first_units(replace_surrogates(text), self._room + 1)
        if units(text) > self._room:  # only the last unit of a pair fits: it must count, not show
            text = first_units(text, self._room)
            text += _FILLER * (self._room - units(text))
        self._parts.append(text)
        self._room -= units(text)

    def ask_tool(self) -> None:
        self.tool = True
        self._parts.clear()

    def discard(self) -> None:
        """Begin again as if nothing had been said."""
        self._parts.clear()
        self._room = MAX_BLOCK_UNITS
        self.tool = False

    def final(self) -> str:
        return "" if self.tool else "".join(self._parts)


class Capture:
    """The state machine of §8; each method is one event. After :meth:`end` nothing counts."""

    def __init__(self) -> None:
        self._candidate = ""
        self._block: _Block | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def open(self) -> bool:
        """Whether a response block is open."""
        return self._block is not None

    @property
    def asked_tool(self) -> bool:
        """Whether the open block asked for a tool."""
        return self._block is not None and self._block.tool

    def begin(self) -> None:
        """A model send got its stream."""
        if self._ended:
            return
        self._block = _Block()  # whatever came before, closed or open, is superseded
        self._candidate = ""

    def text(self, text: str) -> None:
        """A chunk that is not a thought."""
        self._opened().append(text)

    def tool(self) -> None:
        """The block requests a tool: all of it is intermediate."""
        self._opened().ask_tool()

    def retry(self) -> None:
        """A retry that does not continue, or another model that takes over: said for nothing."""
        if self._block is not None:
            self._block.discard()

    def close(self) -> None:
        """The stream ended."""
        if self._block is not None:
            self._candidate = self._block.final()
            self._block = None

    def end(self, reason: str) -> str | None:
        """What is submitted, blank or not, as it may be sent; None: nothing. Once only."""
        if self._ended:
            return None
        self.close()
        final, self._candidate, self._ended = self._candidate, "", True
        return cut(final) if reason == END_TURN else None

    def _opened(self) -> _Block:
        if self._ended:
            return _Block()
        if self._block is None:
            self.begin()
        assert self._block is not None
        return self._block
