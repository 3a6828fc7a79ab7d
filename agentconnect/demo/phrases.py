"""Requests that are a whole phrase: patterns for the text in lower case, ends trimmed. Data."""

import re

from agentconnect.demo.intents import Kind

_PICTURE = "(?:picture|image|photo|screenshot|attachment)"
_ASKED = "ask|asked|say|said|tell|told|want|wanted|write|written|talk|talked|send|sent"

_ALTERNATIVES: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (
        Kind.HELP,
        (
            r"(?:please )?help(?: me)?(?: please)?",
            r"commands?|menu|usage|examples?|what now",
            r"what (?:can|could|do) (?:you|i) (?:do|ask|try|say)(?: here| for me| you)?",
            r"how do(?:es)? (?:you|this|it) work",
        ),
    ),
    (
        Kind.ABOUT,
        (
            r"(?:who|what) (?:are|r) you|about(?: you)?|what is this|what(?: is|'?s) your name",
            r"are you .{1,40}|is this .{1,40}",
            r"(?:which|what) (?:model|agent|llm|ai)\b.{0,40}",
            r"(?:explain|introduce) yourself|tell me about yourself",
        ),
    ),
    (
        Kind.TOUR,
        (
            r"(?:show (?:me )?|give (?:me )?)?(?:a |some |the )?"
            r"(?:demo|tour|steps|live steps|demonstration)(?: please)?",
            r"demonstrate|show me what you can do",
        ),
    ),
    (
        Kind.RECALL,
        (
            rf"(?:do you remember )?what (?:did|have) (?:i|we) (?:just |last )?(?:{_ASKED})\b"
            r".{0,60}",
            r"what was (?:my|the|our) (?:last|previous|first|earlier) "
            r"(?:question|message|request|thing).{0,30}",
            r"do you remember(?: me| us| this| anything)?|(?:our |the )?history",
        ),
    ),
    (
        Kind.MY_NAME,
        (r"what(?: is|'?s) my name|who am i|do you (?:know|remember) my name",),
    ),
    (
        Kind.NOTES,
        (r"what (?:do|did|should) you remember.{0,40}|(?:what are )?my notes",),
    ),
    (
        Kind.PICTURE,
        (
            rf"(?:what|which|describe|about) ?(?:is |was |kind of )?(?:the |that |this |my )?"
            rf"{_PICTURE}s?\b.{{0,60}}",
            r"what do you see.{0,30}|what (?:is|was) that",
            rf"(?:look at|describe|see|show me|what is in|what'?s in|what is on) "
            rf"(?:the|this|that|my) {_PICTURE}.{{0,30}}",
        ),
    ),
    (
        Kind.AGAIN,
        (
            r"(?:please |and |now |do |run |try |say |repeat )*"
            r"(?:it |that |this |the same )?(?:thing )?"
            r"(?:again|once more|one more time|another time|retry|redo)(?: please| now)?",
            r"(?:please |and |now |do )*(?:repeat(?: it| that)?|the same(?: thing)?|same again)"
            r"(?: again)?(?: please)?",
        ),
    ),
    (
        Kind.CLOCK,
        (
            r"what(?: is|'?s)? (?:the )?(?:time|date|day)\b.{0,30}",
            r"(?:the )?(?:time|date)|today",
        ),
    ),
    (
        Kind.THANKS,
        (
            r"(?:thanks|thank you|thx|ty|cheers)\b.{0,40}",
            r"(?:(?:very )?good|great|nice|cool|perfect|awesome|wonderful|ok|okay|well done)"
            r"(?: job| work| one)?(?:[, ]+(?:thanks|thank you|thx))?",
        ),
    ),
    (
        Kind.BYE,
        (r"(?:bye|goodbye|good bye|good night|see you|ciao)\b.{0,30}",),
    ),
    (
        Kind.GREET,
        (
            r"(?:hi|hello|hey|hiya|howdy|hallo|hola|moin|greetings|"
            r"good (?:morning|afternoon|evening|day))(?:[ ,]+(?:there|again|\w{1,20}))?",
            r"(?:(?:hi|hello|hey)[ ,]+)?how are you.{0,20}",
        ),
    ),
)

PHRASES = tuple(
    (kind, re.compile("|".join(f"(?:{pattern})" for pattern in patterns)))
    for kind, patterns in _ALTERNATIVES
)


def phrase(bare: str) -> Kind | None:
    """The request that the whole text is, if it is one."""
    return next((kind for kind, pattern in PHRASES if pattern.fullmatch(bare)), None)
