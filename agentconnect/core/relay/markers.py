"""The one grammar of result bodies: skip, dm-only, redirect and file markers (relay-wire.md §10).

A marker is either issued and removed, or left visible. Nobody else looks for markers in a body:
a second expression drifts, and a drifted marker reaches people as a local path. Linear in the
body's length (★2); never raises. A *prepared* body is never parsed again.
"""

import re
from collections.abc import Callable
from enum import StrEnum

import msgspec

from agentconnect.core.relay.coderegions import CodeRegions
from agentconnect.core.relay.envelope import is_room_id
from agentconnect.core.surrogates import replace_surrogates

MAX_NAME_CHARS = 160
MAX_TAIL_CHARS = 64

_SKIP = re.compile(r"\[(?:((?i:no-send))|(REPLIED)|(?i:deduped):([^\]\r\n]+))\]", re.A)
_DM_ONLY = re.compile(r"\[dm-only\]", re.I | re.A)
_DM_ONLY_LINE = re.compile(
    r"(?:\A|(?<=[\r\n]))[ \t]*+(\[dm-only\])[ \t]*+(?:\r\n|\n|\r)?", re.I | re.A
)
_CHANNEL = re.compile(r"\[channel:([^\]\r\n]+)\]")
# the rest of the marker's line, and the empty lines below it; never the next line's indent
_TO_NEXT_TEXT = re.compile(
    r"[^\S\r\n]*+(?:(?:\r\n|\n|\r)(?:[^\S\r\n]*+(?:\r\n|\n|\r))*+)?",
)
_FILE = re.compile(r"\[(?:file|send|attach):")
_VALUED = re.compile(r"\[(?:file|send|attach|channel|deduped):")
_DESCRIBED = re.compile(r"<[^<>]*>")
_BREAK = re.compile(r"[\r\n]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_REST_OF_NAME = re.compile(r"[^\s\[\]]{0,40}\]|\.[A-Za-z0-9]{1,16}\b")


class Kind(StrEnum):
    """What a marker orders."""

    SKIP = "skip"
    DM_ONLY = "dm-only"
    REDIRECT = "redirect"
    ATTACH = "attach"


class Action(msgspec.Struct, frozen=True, gc=False):
    """One marker. ``extra``: the id of a ``deduped``; ``tail``: what follows a file marker."""

    kind: Kind
    value: str = ""
    extra: str = ""
    tail: str = ""


class Parsed(msgspec.Struct, frozen=True):
    """A body without the markers it issued, and those markers in order of evaluation."""

    body: str
    actions: tuple[Action, ...] = ()

    @property
    def skip(self) -> Action | None:
        """The terminal marker, if the body begins with one; nothing else was parsed then."""
        return next((action for action in self.actions if action.kind is Kind.SKIP), None)

    @property
    def dm_only(self) -> bool:
        """Whether the text asked to stay private."""
        return any(action.kind is Kind.DM_ONLY for action in self.actions)

    @property
    def redirect(self) -> str:
        """The room the broker moves the answer to; ``""`` for none."""
        return next((act.value for act in self.actions if act.kind is Kind.REDIRECT), "")

    @property
    def files(self) -> tuple[Action, ...]:
        """The file markers, duplicates kept."""
        return tuple(action for action in self.actions if action.kind is Kind.ATTACH)


def parse(body: str) -> Parsed:
    """Evaluate the markers of ``body`` in the order of §10."""
    skip = _leading_skip(body)
    if skip is not None:
        value = "no-send" if skip.group(1) else skip.group(2) or "deduped"
        return Parsed("", (Action(Kind.SKIP, value, (skip.group(3) or "").strip()),))
    actions: list[Action] = []
    masks = _Masks()
    text = body
    dm_only = _DM_ONLY.search(text) is not None
    if dm_only:
        actions.append(Action(Kind.DM_ONLY))
        text = _without_dm_only(text, masks)
    channel = _CHANNEL.match(text, _indent(text))
    if channel is not None:
        room = channel.group(1).strip()
        if not dm_only and is_room_id(room):
            actions.append(Action(Kind.REDIRECT, room))
        gap = _TO_NEXT_TEXT.match(text, channel.end())
        text = text[gap.end() if gap else channel.end() :]
    text, files = _without_files(text, masks)
    actions += files
    return Parsed(_without_open_markers(text, masks).strip(), tuple(actions))


def restitch(body: str, redirect: str) -> str:
    """``body`` with its redirect in front again: the broker performs the move."""
    return f"[channel: {redirect}]\n{body}" if is_room_id(redirect) else body


def guard_agent_skip(text: str) -> str:
    """Put a leading skip marker in backticks where text follows: it is being discussed (★26).

    One that stands alone is an intended silence and stays.
    """
    skip = _leading_skip(text)
    if skip is None or not text[skip.end() :].strip():
        return text
    return _in_backticks(text, skip)


def guard_prepared(text: str) -> str:
    """As :func:`guard_agent_skip`, for a redirect too that the parsed text did not issue."""
    channel = _CHANNEL.match(text, _indent(text))
    return guard_agent_skip(text) if channel is None else _in_backticks(text, channel)


def disown_files(text: str, why: str) -> str:
    """``text`` with the line of a refusal in place of each file marker that would act: it was
    written where another machine's files are meant."""
    return _without_files(text, _Masks(), lambda name: file_refusal_line(name, why))[0]


def file_refusal_line(name: str, why: str) -> str:
    """The line that says a named file was not sent; neither part can forge a marker."""
    return f"[attachment not sent: {_plain(name) or 'an unnamed file'} ({_plain(why)})]"


def looks_cut_at_bracket(action: Action) -> bool:
    """Whether a file marker's path was cut at a ``]`` that belongs to the name (★27)."""
    value = action.value
    return value.count("[") > value.count("]") and _REST_OF_NAME.match(action.tail) is not None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _leading_skip(text: str) -> re.Match[str] | None:
    return _SKIP.match(text, _indent(text))


def _in_backticks(text: str, marker: re.Match[str]) -> str:
    after = text[marker.end() :]
    gap = " " if after.startswith("`") else ""
    return f"{text[: marker.start()]}`{marker.group()}`{gap}{after}"


def _plain(text: str) -> str:
    """One short line without brackets."""
    text = _CONTROL.sub(" ", replace_surrogates(text[: 16 * MAX_NAME_CHARS]))
    text = text.replace("[", "(").replace("]", ")")
    return " ".join(text.split())[:MAX_NAME_CHARS].rstrip()


class _Masks:
    """The code regions of the text at hand, built again only when the text changed."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._code = CodeRegions("")

    def of(self, text: str) -> CodeRegions:
        if text != self._text:
            self._text, self._code = text, CodeRegions(text)
        return self._code


def _without_dm_only(text: str, masks: _Masks) -> str:
    code = masks.of(text)
    return _DM_ONLY_LINE.sub(lambda m: m.group() if code.covers(m.start(1)) else "", text)


class _Lines:
    """Line ends met while walking forward through a text; each line is looked at once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.end = -1

    def enter(self, offset: int) -> bool:
        """Move to the line of ``offset``; whether that is another line than before."""
        if offset <= self.end:
            return False
        found = _BREAK.search(self._text, offset)
        self.end = found.start() if found else len(self._text)
        return True


def _without_files(
    text: str, masks: _Masks, instead: Callable[[str], str] = lambda name: ""
) -> tuple[str, list[Action]]:
    """The text without its live file markers, and those markers (step 4)."""
    actions: list[Action] = []
    tag = _FILE.search(text)
    if tag is None:
        return text, actions
    code, lines = masks.of(text), _Lines(text)
    kept: list[str] = []
    position, close = 0, -1
    while tag is not None:
        scan = tag.end()
        if lines.enter(scan) or -1 < close < scan:
            close = text.find("]", scan, lines.end)
        if close < 0:  # nothing closes on this line any more
            scan = lines.end
        elif close > scan and not code.covers(tag.start()):
            value = text[scan:close].strip()
            scan = close + 1
            if not _DESCRIBED.fullmatch(value):
                kept += (text[position : tag.start()], instead(value))
                tail = text[scan : min(lines.end, scan + MAX_TAIL_CHARS)]
                actions.append(Action(Kind.ATTACH, value, "", tail))
                position = scan
        tag = _FILE.search(text, scan)
    kept.append(text[position:])
    return "".join(kept), actions


def _without_open_markers(text: str, masks: _Masks) -> str:
    """The text with each unterminated marker cut to the end of its line (step 5, ★3)."""
    for _ in range(3):  # a cut can take a backtick away and so bring another marker to light
        cut = _cut_open_markers(text, masks)
        if cut == text:
            break
        text = cut
    return text


def _cut_open_markers(text: str, masks: _Masks) -> str:
    tag = _VALUED.search(text)
    if tag is None:
        return text
    code, lines = masks.of(text), _Lines(text)
    kept: list[str] = []
    position, last_close = 0, -1
    while tag is not None:
        scan = tag.end()
        if lines.enter(scan):
            last_close = text.rfind("]", scan, lines.end)
        if last_close < scan and not code.covers(tag.start()):
            kept.append(text[position : tag.start()])
            position = scan = lines.end
        tag = _VALUED.search(text, scan)
    kept.append(text[position:])
    return "".join(kept)
