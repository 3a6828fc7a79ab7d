"""What a message asks for: text in, :class:`Intent` out. Pure; the rules are tried in order.

A text that no rule knows is tried once more with small typos mended, and then is
``Kind.UNKNOWN``, which is answered kindly. Follow-ups (``AGAIN``, ``SAME_FOR``) are settled
against the conversation by :mod:`agentconnect.demo.followups`.
"""

import re
from collections.abc import Callable

from agentconnect.demo import words
from agentconnect.demo.composing import to_background, to_write
from agentconnect.demo.intents import ALL, IT, OTHER, Intent, Kind
from agentconnect.demo.phrases import phrase

_POLITE = re.compile(
    r"^(?:(?:hey|hi|hello|ok|okay|please|so|well|and now|now|then|also)[,.! ]+)*"
    r"(?:(?:can|could|would|will) you |let's |(?:i want|i'd like|i would like|i need) "
    r"(?:(?:you )?to |(?=an? |another )))?"
    r"(?:please )?(?:just )?",
    re.I,
)
_PRONOUN = (
    r"(?:it|this|that|that one|this one|(?:the|that|this) (?:same )?file|the last (?:one|file))"
)
_FILLER = re.compile(
    r"^(?:(?:me|us|all|of|the|a|an|my|our|your|this|that|file|files|document|text|content|contents|"
    r"called|named|out|from|in|inside|at|please|again)\b[ :]*)+",
    re.I,
)
_CANNOT = re.compile(
    r"(delete|remove|rename|move|run|execute|install|fix|browse|google|translate|refactor|"
    r"commit|push|debug|deploy|compile|download|edit|change)\b",
    re.I,
)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?;])\s+|\n+")
MAX_SENTENCES = 12
_PLEASANTRIES = frozenset({Kind.GREET, Kind.THANKS, Kind.BYE})


def parse(message: str) -> Intent:
    """What the message asks for; UNKNOWN keeps its text."""
    text = words.squeeze(message)
    found = _match(text) or _match(words.corrected(text))
    if found is None or (found.kind in _PLEASANTRIES and len(text) > 30):
        parts = [part for part in map(_match, _sentences(message)) if part is not None]
        found = next((part for part in parts if part.kind not in _PLEASANTRIES), found)
    return found or Intent(kind=Kind.UNKNOWN, text=text)


def _sentences(message: str) -> list[str]:
    """The parts of a longer message, in order; none for a message that is one part."""
    parts = _SENTENCE_ENDS.split(message[: words.MAX_TEXT].strip())[:MAX_SENTENCES]
    return [words.squeeze(part) for part in parts if part.strip()] if len(parts) > 1 else []


def _match(text: str) -> Intent | None:
    bare = text.strip(" .!?,;:…").lower()
    plain = _POLITE.sub("", text, count=1).strip(" ,;") or text
    if re.fullmatch(r"crash now[.!]*", plain, re.I):
        return Intent(kind=Kind.CRASH)
    whole = phrase(bare) or phrase(plain.strip(" .!?,;:…").lower())
    if whole is not None:
        return Intent(kind=whole)
    for rule in _RULES:
        found = rule(plain)
        if found is not None:
            return found
    return None


def _echo(text: str) -> Intent | None:
    match = re.match(r"(?:echo|repeat after me|say)\b[ :,]*(.*)", text, re.I)
    if match is None or not match[1] or re.fullmatch(r"(?:that |it )?again[.!]*", match[1], re.I):
        return None
    return Intent(kind=Kind.ECHO, text=words.quoted(match[1]) or match[1])


def _count_to(text: str) -> Intent | None:
    match = re.search(r"\bcount (?:up )?(?:from (?:1|one) )?to (\d{1,6})\b", text, re.I)
    return Intent(kind=Kind.COUNT_TO, number=int(match[1])) if match else None


def _slow(text: str) -> Intent | None:
    pattern = r"\b(?:slow|slowly|long|lengthy)(?:[ -]?running)? (?:job|task|work|turn|thing|one)\b"
    if not re.search(pattern, text, re.I):
        return None
    match = re.search(r"\b(\d{1,5}) ?(s|secs?|seconds?|m|mins?|minutes?)?\b", text, re.I)
    seconds = int(match[1]) if match else 10
    if match and (match[2] or "s").lower().startswith("m"):
        seconds *= 60
    return Intent(kind=Kind.SLOW, number=seconds)


def _named(text: str) -> Intent | None:
    match = re.match(r"(?:my name is|call me|i am called|i'm called)\s+(.{1,60})", text, re.I)
    return Intent(kind=Kind.NAMED, text=match[1].strip(" .!\"'")) if match else None


def _note(text: str) -> Intent | None:
    match = re.match(r"(?:remember|keep in mind|don't forget)(?: that)?[ :]+(.{1,300})", text, re.I)
    if match is None or text.rstrip().endswith("?"):
        return None
    return Intent(kind=Kind.NOTE, text=match[1].strip())


def _cannot(text: str) -> Intent | None:
    match = _CANNOT.match(text)
    return Intent(kind=Kind.CANNOT, text=match[1].lower()) if match else None


_SAME = re.compile(
    r"(?:and |now |do |try |then |again )*"
    r"(?:(?:the )?same(?: thing)?|that|it|this|repeat(?: that)?)(?: again)? "
    r"(?:for|with|on|to|in|of|about) (.+)"
)
_AND = re.compile(
    r"(?:and what about|and now|what about|how about|and|now|then)\b(?: (?:for|in|with|of))? (.+)"
)
_OTHER_ONE = re.compile(
    r"(?:now |and |then )*(?:the )?(?:other|next|second|another) (?:one|file)(?: please| now| too)?"
)
_ALL_OTHERS = re.compile(
    r"(?:all(?: of)? )?(?:the |them)?(?:others|other files|other ones|rest|files|remaining ones)?"
    r"(?: please| now| too)?|every(?:thing)?(?: other)?(?: file| one)?"
)


def _same_for(text: str) -> Intent | None:
    bare = text.strip(" .!?,;:…").lower()
    same = _SAME.match(bare)
    asks = same or _AND.match(bare)
    if asks is None and not _OTHER_ONE.fullmatch(bare):
        return None
    rest = asks[1] if asks else bare
    if words.file_names(text):
        return Intent(kind=Kind.SAME_FOR, name=words.file_names(text)[0])
    if _ALL_OTHERS.fullmatch(rest):
        return Intent(kind=Kind.SAME_FOR, name=ALL)
    if _OTHER_ONE.fullmatch(rest):
        return Intent(kind=Kind.SAME_FOR, name=OTHER)
    named = words.quoted(text) or (_FILLER.sub("", rest).strip() if same else "")
    return Intent(kind=Kind.SAME_FOR, name=named) if named else None


def _count(text: str) -> Intent | None:
    match = re.search(r"\b(?:count|how many|number of)\b(.*)", text, re.I)
    what = re.search(
        r"\b(word|line|character|letter|byte|file)s?\b(.*)", match[1] if match else "", re.I
    )
    if what is None:
        return None
    rest = what[2].strip(" ?.!")
    if what[1].lower() == "file" and not re.search(r"\b(?:word|line|letter)", text, re.I):
        inside = re.search(r"\b(?:in|of|inside)\b(.*)", rest)
        return Intent(kind=Kind.LIST, name=_folder(inside[1]) if inside else "")
    name = _target(re.sub(r"^.*?\b(?:in|of|has|does|are in)\b", "", rest), text)
    if not name and (said := words.quoted(text) or rest.partition(":")[2].strip()):
        return Intent(kind=Kind.COUNT, text=said)
    quoted = words.quoted(text)
    if quoted and not words.looks_like_file(quoted):
        return Intent(kind=Kind.COUNT, text=quoted)
    return Intent(kind=Kind.COUNT, name=name or IT)


_SEARCH = re.compile(
    r"(?:search|grep|look for|find|which files?|what files?|where(?: is| are| does| do)?)\b(.*)",
    re.I,
)
_NEEDLE_STARTS = re.compile(
    r"^[ :]*(?:the files |files |everything |here )?(?:for |the (?:word|text) )*", re.I
)
_NEEDLE_ENDS = re.compile(r"\s+(?:in|inside|within|among|mentioned|from)\b", re.I)


def _search(text: str) -> Intent | None:
    match = _SEARCH.match(text)
    if match is None:
        return None
    rest = match[1]
    if re.match(r"which|what", text, re.I):
        said = re.search(r"\b(?:mentions?|contains?|says?|has|have|with)\b(.+)", rest, re.I)
        if said is None:
            return None
        rest = said[1]
    if turned := re.match(r" in (.{1,80}?) for (.+)", rest, re.I):
        rest = f" for {turned[2]} in {turned[1]}"
    needle = words.quoted(rest)
    if not needle:
        needle = _NEEDLE_ENDS.split(_NEEDLE_STARTS.sub("", rest), maxsplit=1)[0].strip(" ?.!:")
    if not needle or needle.lower() in {"file", "files"}:
        return None
    where = next((name for name in words.file_names(rest) if name != needle), "")
    if not where and (inside := re.search(r"\s(?:in|inside|within)\b(.*)", rest, re.I)):
        where = _folder(inside[1])
    return Intent(kind=Kind.SEARCH, text=needle[:100], name=where)


def _send(text: str) -> Intent | None:
    match = re.match(r"(?:send|give|share|attach|upload|post|i want|hand over)\b(.+)", text, re.I)
    if match is None:
        return None
    name = _target(match[1], match[1])
    return Intent(kind=Kind.SEND, name=name) if name else None


_LIST = re.compile(
    r"(?:ls|list|show|see|what|which|display|tell me|look|open|are there)\b(.*?)"
    r"\b(?:files|folder|directory|here|everything)\b(.*)",
    re.I,
)
_OURS = frozenset(
    """a all and any are at by called can current directory do everything file files folder from has
    have here in inside is it list look me my named now of our please see show that the there this
    to us we what which working you your""".split()  # noqa: SIM905 - read as prose
)


def _list(text: str) -> Intent | None:
    bare = text.strip(" .!?,;:").lower()
    if bare in {"ls", "dir", "files", "list", "list files", "what's here"}:
        return Intent(kind=Kind.LIST)
    if (short := re.fullmatch(r"(?:ls|dir|list) ([\w./-]{1,100})", bare)) and "." not in short[1]:
        name = short[1].rstrip("/") or "/"
        return Intent(kind=Kind.LIST, name="" if name in _OURS else name)
    match = _LIST.match(text)
    if match is None or words.file_names(text):
        return None
    name = words.quoted(text) or _folder(match[2])
    if not name and re.search(r"\b(?:folder|directory)\b", text, re.I):
        name = _folder(match[1])
    return Intent(kind=Kind.LIST, name=name)


def _folder(text: str) -> str:
    """The folder that the words name; ``""`` is the working folder."""
    said = re.findall(r"[^\s?!,;:]+", text.removeprefix("'s"))
    kept = [word for word in said if word.lower() not in _OURS]
    name = " ".join(kept).strip(".").rstrip("/")
    return name if len(kept) <= 3 else ""


_READ = re.compile(
    r"(?:read|show|open|cat|display|print|view|see|look (?:at|in|into)|list|describe|summari[sz]e|"
    r"sum up|explain|tell me about|tell me what is in|what(?: is|'?s) (?:in|inside)|what does)\b"
    r"(.+)",
    re.I,
)
_BRIEF = re.compile(r"summ|sum up|tell me about|explain|describe", re.I)


def _read(text: str) -> Intent | None:
    match = _READ.match(text)
    if match is None:
        return None
    rest = re.sub(r"\b(?:say|contain|hold|look like)\b.*$", "", match[1], flags=re.I)
    name = _target(rest, match[1])
    brief = "brief" if _BRIEF.match(text) else ""
    return Intent(kind=Kind.READ, name=name, form=brief) if name else None


def _target(rest: str, text: str) -> str:
    """The file that the words mean: a quoted one, a file name, a pronoun, or the words left."""
    quoted = words.quoted(text)
    if quoted:
        return quoted
    names = words.file_names(text)
    if names:
        return names[0]
    left = rest.strip(" ?.!:;,")
    if re.fullmatch(
        rf"(?:me |us |to me |back )*{_PRONOUN}(?: to me| to us| back| please| again| now)*",
        left,
        re.I,
    ):
        return IT
    if re.search(r"\b(?:other|next) (?:one|file)\b", left, re.I):
        return OTHER
    left = re.sub(
        r"\s+(?:please|to me|to us|again|now|here|file|folder|in the folder)$", "", left, flags=re.I
    )
    left = _FILLER.sub("", left).strip(" ?.!:;,")
    return left if len(left) <= 80 and len(left.split()) <= 4 else ""


def _save(text: str) -> Intent | None:
    match = re.match(r"(?:save|store|keep|put)\b(.*)", text, re.I)
    if match is None:
        return None
    names = words.file_names(match[1])
    return Intent(kind=Kind.SAVE, name=names[0] if names else "")


def _bare_name(text: str) -> Intent | None:
    name = words.quoted(text) if text[:1] in "`\"'“" else text.strip(" .!?")
    return Intent(kind=Kind.READ, name=name) if words.looks_like_file(name) else None


_RULES: tuple[Callable[[str], Intent | None], ...] = (
    to_background,
    _same_for,
    _count_to,
    _slow,
    _named,
    _note,
    _count,
    _search,
    to_write,
    _list,
    _echo,
    _save,
    _send,
    _cannot,
    _read,
    _bare_name,
)
