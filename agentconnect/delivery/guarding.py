"""The one guard that everything posted unasked passes: deliveries, and ``_ag2/notify``.

A later way of posting unasked has to go through :meth:`UnaskedGuard.why_not` too
(deferred-delivery.md §9.6, §13).
"""

from agentconnect.core.turns import wording
from agentconnect.core.turns.guard import ResultGuard, Scan


class UnaskedGuard:
    """The result guard, for what no Turn is there to answer for."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._files = ResultGuard(scan)

    def why_not(self, name: str, content: str | bytes) -> str:
        """Why a text, or a file with this name, may not be posted; "": it may.

        It never quotes what was found. Blocking for as long as reading the content takes.
        """
        if isinstance(content, bytes):
            return self._files.file(name, content)
        found = self._scan(content)
        return wording.withheld_file(found) if found else ""
