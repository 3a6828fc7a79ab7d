"""The steps a running message has shown, for whoever opens the page in the middle of a turn.

Kept in memory and bounded: they are of use only while the turn runs, and a restart of the relay may
forget them.
"""

from collections import OrderedDict, deque

_MESSAGES = 500
_STEPS = 20
_CHARS = 500


class Steps:
    """The newest texts of each message that is a placeholder still."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, deque[str]] = OrderedDict()

    def note(self, event_id: str, body: str) -> None:
        """A message was edited to this."""
        shown = self._shown.setdefault(event_id, deque(maxlen=_STEPS))
        self._shown.move_to_end(event_id)
        text = body[:_CHARS]
        if not shown or shown[-1] != text:
            shown.append(text)
        if len(self._shown) > _MESSAGES:
            self._shown.popitem(last=False)

    def of(self, event_id: str) -> list[str]:
        """What a message has shown so far, oldest first."""
        return list(self._shown.get(event_id, ()))
