"""Which offsets of a text are shown as code: fences, indented blocks and inline spans.

A marker inside code is text that the author shows, not an order (relay-wire.md §10). One
predicate over offsets, built in one linear pass; build it again whenever the text changes.
Errors towards "not code" send what was shown, errors towards "code" leave paths visible: the
limits below (a span ends at a blank line) are as deliberate as the masks.
"""

import re
from bisect import bisect_right

# up to three white-space characters, at most one level of quoting, then the run
_FENCE = re.compile(r"\s{0,3}(>\s{0,4})?(`{3,}+|~{3,}+)(.*)", re.S)
_QUOTE = re.compile(r"\s{0,3}>")
_TICKS = re.compile(r"`+")


class CodeRegions:
    """The code regions of one text, as sorted half-open intervals."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        # same length, one kind of line break
        self._flat = text.replace("\r\n", " \n").replace("\r", "\n")
        if "`" in text or "~~~" in text or "    " in text or "\t" in text:
            self._scan()

    def covers(self, offset: int) -> bool:
        """Whether the character at ``offset`` is shown as code."""
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def _scan(self) -> None:
        fence: _Fence | None = None
        after_paragraph = False
        paragraph = -1  # where the run of paragraph lines began
        offset = 0
        for line in self._flat.split("\n"):
            start, offset = offset, offset + len(line) + 1
            if fence is not None:
                if not fence.left_by(line):
                    if fence.closed_by(line):
                        self._add(fence.start, offset)
                        fence = None
                    continue
                self._add(fence.start, start)
                fence = None
            if not line and paragraph < 0:
                after_paragraph = False
                continue
            words = line.lstrip()
            opened = _Fence.opened_by(line, start) if words[:1] in ("`", "~", ">") else None
            indented = not after_paragraph and line.startswith(("    ", "\t"))
            if opened is None and words and not indented and words.rstrip() != ">":
                paragraph = start if paragraph < 0 else paragraph
                after_paragraph = True
                continue
            self._add_spans(paragraph, start)
            paragraph = -1
            after_paragraph = opened is None and not indented and words != ""
            fence = opened
            if opened is None and words and indented:
                self._add(start, offset)
        if fence is not None:  # an example that was never finished is still an example
            self._add(fence.start, offset)
        self._add_spans(paragraph, len(self._flat))

    def _add(self, start: int, end: int) -> None:
        self._starts.append(start)
        self._ends.append(end)

    def _add_spans(self, start: int, end: int) -> None:
        """The inline spans of one run of paragraph lines: equal runs of backticks pair up."""
        if start < 0 or self._flat.find("`", start, end) < 0:
            return
        runs = [match.span() for match in _TICKS.finditer(self._flat, start, end)]
        partner = [-1] * len(runs)
        latest: dict[int, int] = {}
        for index in range(len(runs) - 1, -1, -1):
            length = runs[index][1] - runs[index][0]
            partner[index] = latest.get(length, -1)
            latest[length] = index
        index = 0
        while index < len(runs):
            closing = partner[index]
            if closing >= 0:
                self._add(runs[index][0], runs[closing][1])
                index = closing
            index += 1


class _Fence:
    """An open fence: it closes with its own character, at least as long, with nothing after."""

    __slots__ = ("_length", "_mark", "_quoted", "start")

    def __init__(self, start: int, run: str, *, quoted: bool) -> None:
        self.start = start
        self._mark = run[0]
        self._length = len(run)
        self._quoted = quoted

    @classmethod
    def opened_by(cls, line: str, start: int) -> "_Fence | None":
        match = _FENCE.match(line)
        if match is None:
            return None
        quote, run, info = match.groups()
        if run[0] == "`" and "`" in info:
            return None
        return cls(start, run, quoted=quote is not None)

    def left_by(self, line: str) -> bool:
        """Whether ``line`` ends the quotation that the fence stands in."""
        return self._quoted and _QUOTE.match(line) is None

    def closed_by(self, line: str) -> bool:
        match = _FENCE.match(line) if self._mark in line else None
        if match is None:
            return False
        quote, run, info = match.groups()
        return (
            (quote is not None) == self._quoted
            and run[0] == self._mark
            and len(run) >= self._length
            and not info.strip()
        )
