"""What a message asks for: text in, :class:`Intent` out. Pure; the rules are tried in order.

A text that no rule knows is tried once more with small typos mended, and then is
``Kind.UNKNOWN``, which is answered kindly. Follow-ups (``AGAIN``, ``SAME_FOR``) are settled
against the conversation by :mod:`agentconnect.demo.followups`.
"""

import re
from collections.abc import Callable

from agentconnect.demo import words
from agentconnect.demo.intents import ALL, IT, OTHER, Intent, Kind
from agentconnect.demo.phrases import phrase

_FORM_WORDS = {
    "csv": "csv table spreadsheet",
    "html": "html page webpage website",
    "svg": "svg drawing diagram chart graph picture image logo",
    "md": "markdown md report document summary essay article readme letter story poem plan",
    "txt": "file text txt note list todo",
    "json": "json",
}
FORMS = {word: form for form, listed in _FORM_WORDS.items() for word in listed.split()}

_POLITE = re.compile(
    r"^(?:(?:hey|hi|hello|ok|okay|please|so|well|and now|now|then|also)[, ]+)*"
    r"(?:(?:can|could|would|will) you |"
    r"(?:i want|i'd like|i would like|i need)(?: you)? to |let's )?"
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
_MAKE = re.compile(
    r"(write|make|create|generate|draft|build|produce|prepare|draw|send|give|save|put)\b(.*)", re.I
)
_FETCHING = frozenset({"send", "give", "save", "put"})


def parse(message: str) -> Intent:
    """What the message asks for; UNKNOWN keeps its text."""
    text = words.squeeze(message)
    found = _match(text)
    if found is None:
        mended = words.corrected(text)
        found = _match(mended) if mended != text else None
    return found or Intent(kind=Kind.UNKNOWN, text=text)


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
_OTHER_ONE = re.compile(r"(?:now |and |then )*(?:the )?(?:other|next) (?:one|file)")


def _same_for(text: str) -> Intent | None:
    bare = text.strip(" .!?,;:…").lower()
    same = _SAME.match(bare)
    asks = same or _AND.match(bare)
    if asks is None and not _OTHER_ONE.fullmatch(bare):
        return None
    rest = asks[1] if asks else bare
    if re.search(r"\b(?:all|every|others|other files|rest)\b", rest):
        return Intent(kind=Kind.SAME_FOR, name=ALL)
    if re.search(r"\b(?:other|next|another|second)\b", rest):
        return Intent(kind=Kind.SAME_FOR, name=OTHER)
    named = next(iter(words.file_names(text)), "") or words.quoted(text)
    if not named and same:
        named = _FILLER.sub("", rest).strip()
    return Intent(kind=Kind.SAME_FOR, name=named) if named else None


_HEAD_ENDS = re.compile(
    r"\b(?:about|on|regarding|with|saying|containing|called|named|as|of|for)\b", re.I
)


def _write(text: str) -> Intent | None:
    verb = _MAKE.match(text)
    if verb is None:
        return None
    word = verb[1].lower()
    head = _HEAD_ENDS.split(verb[2], maxsplit=1)[0]
    names = words.file_names(verb[2])
    form = next((FORMS[w] for w in re.findall(r"\w+", head.lower()) if w in FORMS), "")
    fresh = re.search(r"\b(?:a|an|another|new|some)\b", head, re.I)
    if word in _FETCHING and not (form and fresh):
        return None
    if not form and not names and word not in {"write", "draw", "draft"}:
        return None
    name = names[0] if names else ""
    if not name and (called := re.search(r"\b(?:called|named)\s+([\w-]{1,60})", text, re.I)):
        name = called[1]
    if "." in name:
        form = FORMS.get(name.rsplit(".", 1)[1].lower(), form or "txt")
    form = form or ("svg" if word == "draw" else "md")
    return Intent(kind=Kind.WRITE, name=name, form=form, text=_body(text) or _topic(verb[2]))


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


def _count(text: str) -> Intent | None:
    match = re.search(r"\b(?:count|how many|number of)\b(.*)", text, re.I)
    what = re.search(
        r"\b(word|line|character|letter|byte|file)s?\b(.*)", match[1] if match else "", re.I
    )
    if what is None:
        return None
    rest = what[2].strip(" ?.!")
    if what[1].lower() == "file" and not re.search(r"\b(?:word|line|letter)", text, re.I):
        return Intent(kind=Kind.LIST, name=_target(re.sub(r"^.*\b(?:in|of)\b", "", rest), text))
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
    needle = words.quoted(rest)
    if not needle:
        needle = _NEEDLE_ENDS.split(_NEEDLE_STARTS.sub("", rest), maxsplit=1)[0].strip(" ?.!:")
    if not needle or needle.lower() in {"file", "files"}:
        return None
    where = next((name for name in words.file_names(rest) if name != needle), "")
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
_INNER = re.compile(
    r"(?:are |is )?(?:in|of|under|inside|called|named)?\s*(?:the )?(?:folder |directory )?(.*)",
    re.I,
)
_OURS = frozenset(
    """all and are can current directory do folder has have here in is it me my now our please see
    that the there this we working you your""".split()  # noqa: SIM905 - read as prose
)


def _list(text: str) -> Intent | None:
    bare = text.strip(" .!?,;:").lower()
    if bare in {"ls", "dir", "files", "list", "list files", "what's here"}:
        return Intent(kind=Kind.LIST)
    if (short := re.fullmatch(r"(?:ls|dir|list) ([\w./-]{1,100})", bare)) and "." not in short[1]:
        return Intent(kind=Kind.LIST, name="" if short[1] in _OURS else short[1].strip("/"))
    match = _LIST.match(text)
    if match is None or words.file_names(text):
        return None
    inner = _INNER.match(match[2].strip(" ?.!"))
    name = (inner[1] if inner else "").strip(" ?.!/")
    if all(word in _OURS for word in name.lower().split()):
        name = next((w for w in re.findall(r"[\w-]+", match[1]) if w.lower() not in _OURS), "")
        name = name if re.search(r"\b(?:folder|directory)\b", text, re.I) else ""
    return Intent(kind=Kind.LIST, name=words.quoted(text) or name)


_READ = re.compile(
    r"(?:read|show|open|cat|display|print|view|see|look (?:at|in|into)|list|describe|summari[sz]e|"
    r"sum up|explain|tell me about|tell me what is in|what(?: is|'s) (?:in|inside)|what does)\b"
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
    _same_for,
    _count_to,
    _slow,
    _named,
    _note,
    _count,
    _search,
    _write,
    _list,
    _echo,
    _save,
    _send,
    _cannot,
    _read,
    _bare_name,
)
