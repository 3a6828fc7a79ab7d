"""Requests for a new file: which form, which name, which topic or text. Pure."""

import re
from dataclasses import replace

from agentconnect.demo import words
from agentconnect.demo.intents import Intent, Kind

_FORM_WORDS = {
    "csv": "csv table spreadsheet",
    "html": "html page webpage website",
    "svg": "svg drawing diagram chart graph picture image logo",
    "md": "markdown md report document summary essay article readme letter story poem plan",
    "txt": "file text txt note list todo",
    "json": "json",
}
FORMS = {word: form for form, listed in _FORM_WORDS.items() for word in listed.split()}

_MAKE = re.compile(
    r"(write|make|create|generate|draft|build|produce|prepare|draw|send|give|save|put)\b(.*)", re.I
)
_FETCHING = frozenset({"send", "give", "save", "put"})

_HEAD_ENDS = re.compile(
    r"\b(?:about|on|regarding|with|saying|containing|called|named|as|of|for)\b", re.I
)
_WANTED = re.compile(r"(an?|another|one more|a new)\b(.*)", re.I)
_CALLED = re.compile(r"\b(?:called|named|name it|call it)\s+((?:[\"'`]?)([\w-]{1,60})\S*)", re.I)


_GIVEN = re.compile(r"\s*(.+?)\s+(?:to|in|into)\s+(?:(?:the|a) )?(?:file )?[`\"']?$")


def to_write(text: str) -> Intent | None:
    """The file that the text asks for, or None."""
    verb = _MAKE.match(text) or _WANTED.match(text)
    if verb is None:
        return None
    word = verb[1].lower()
    head = _HEAD_ENDS.split(verb[2], maxsplit=1)[0]
    form = next((FORMS[w] for w in re.findall(r"\w+", head.lower()) if w in FORMS), "")
    name = _destination(head, verb[2])
    if word in _FETCHING and not (form and re.search(r"\b(?:an?|another|new|some)\b", head, re.I)):
        return None
    if not form and (not name or _WANTED.match(word)) and word not in {"write", "draw", "draft"}:
        return None
    if "." in name:
        form = FORMS.get(name.rsplit(".", 1)[1].lower(), form or "txt")
    form = form or ("svg" if word == "draw" else "md")
    text_given = _body(text) or (_given(head, name) if name else "")
    return Intent(kind=Kind.WRITE, name=name, form=form, text=text_given or _topic(verb[2]))


def _given(head: str, name: str) -> str:
    """The words to write in "write hello to hi.txt"; ``""`` where they are a description."""
    quoted = words.quoted(head)
    if quoted:
        return "" if quoted == name else f"={quoted}"
    match = _GIVEN.match(head.split(name)[0])
    described = match is None or any(w in FORMS for w in re.findall(r"\w+", match[1].lower()))
    return "" if described or match is None else f"={match[1]}"


def _destination(head: str, rest: str) -> str:
    """The new file's name where one is given."""
    named = _CALLED.search(rest)
    if named:
        return next(iter(words.file_names(named[1])), "") or named[2]
    quoted = words.quoted(head)
    return next((name for name in words.file_names(head) if name not in quoted), "") or (
        quoted if words.looks_like_file(quoted) else ""
    )


_BEHIND = re.compile(r"\bin (?:the )?back ?ground\b", re.I)
_AFTERWARDS = re.compile(
    r"\b(?:send|give|post|deliver|bring|show|tell)\b.{0,60}?"
    r"\b(?:later|when(?:ever)? (?:(?:it|that|this|you|the \w{1,20})(?:'s|'re| is| are) )?"
    r"(?:done|ready|finished))\b",
    re.I,
)
_TAIL = re.compile(
    r"[,;.]?\s*\b(?:and|then)\b\s*(?:then )?(?:send|give|post|deliver|bring)\b.*$", re.I
)
_TAKING = re.compile(
    r"(?:\b(?:for|in|within|after|taking|it takes|take) )?"
    r"\b(\d{1,5}) ?(s|secs?|seconds?|m|mins?|minutes?)\b",
    re.I,
)
_SOMETHING = re.compile(
    r"(?:build|make|do|run|start|prepare|work|slow|long|send|a report|report)\b", re.I
)
BACKGROUND_S = 3


def seconds_in(text: str, otherwise: int) -> int:
    """The time that a text names, in seconds."""
    match = _TAKING.search(text)
    if match is None:
        return otherwise
    return int(match[1]) * (60 if match[2].lower().startswith("m") else 1)


def to_background(text: str) -> Intent | None:
    """What to make while the conversation goes on, or None."""
    if not (_BEHIND.search(text) or _AFTERWARDS.search(text)):
        return None
    seconds = seconds_in(text, BACKGROUND_S)
    rest = words.squeeze(_TAKING.sub(" ", _BEHIND.sub(" ", _TAIL.sub("", text)))).lstrip(" ,;:")
    wanted = to_write(rest)
    if wanted is None and not _SOMETHING.match(rest):
        return None
    wanted = wanted or Intent(kind=Kind.WRITE, form="md")
    return replace(wanted, kind=Kind.BACKGROUND, number=seconds)


_BODY = re.compile(
    r"\b(?:saying|containing|that says|with (?:the )?(?:text|words?|contents?|line))\b[ :]*(.+)",
    re.I,
)
_TOPIC = re.compile(r"\b(?:about|on|regarding|of|for)\s+(.{1,200})", re.I)
_TOPIC_ENDS = re.compile(
    r"\s+(?:called|named|and send|and call|as a file|in a file|to a file)\b", re.I
)


def _body(text: str) -> str:
    """Exactly what to write, marked with ``=``; ``""`` where no text was given."""
    match = _BODY.search(text)
    return "=" + (words.quoted(match[1]) or match[1]) if match else ""


def _topic(text: str) -> str:
    match = _TOPIC.search(text)
    topic = match[1] if match else ""
    return _TOPIC_ENDS.split(topic)[0].strip(" .!?")
