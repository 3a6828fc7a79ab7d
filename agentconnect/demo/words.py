"""Words as people type them: small typos, quotes, names of files. Pure and bounded."""

import re

MAX_TEXT = 4000
MAX_MENDED = 200  # a longer text is no mistyped command, and looking costs time
_QUOTED = re.compile(r"[`\"“”„]([^`\"“”„\n]{1,200})[`\"“”„]|(?<!\w)'([^'\n]{1,200})'(?!\w)")
_FILE = re.compile(
    r"(?<![\w@:/.])(?:[\w.~()+-]{1,80}/){0,8}(?:[\w()+-][\w.()+-]{0,80}\.\w{1,8}(?!\w)|\.\w[\w.-]{0,40})"
)
_WORD = re.compile(r"[^\W\d_]{4,20}")

VOCABULARY = frozenset(
    """again about attach called cancel characters chart content contents count crash create
    demonstration describe directory display document draw drawing echo explain file files find
    first folder greet hello help history html image letters lines list look make markdown mention
    message number once open other page picture please previous read remember repeat report same
    save say search seconds send share show slow steps summarise summarize table text thanks what
    which with word words write working""".split()  # noqa: SIM905 - read as prose
)
_ORDINARY = frozenset(
    """able ahead army asks back been best bill book both cake came city comes cost could date days
    down each ever fast feel fill film fire fish five flow form from game gave give gone good half
    hall hand hard have head hear here high hint hole home hope hour house into join just keep kind
    know lake last late left less life like line lives long lost love made mail main many mark mean
    meet mile mind mine more most move much must name near need news next nice note notes only over
    pace pages part past path play plan read real rest room rose said sail sale sand seen self sell
    sent shop shown side size slot snow some soon sort such take talk task tell test than that them
    then there these they thing this those time told took tree true turn type upon used very wait
    walk want week well were whale when where will wine wish wood word work world wrote year your
    fold hold sold folded fake wild lust lint flies fires tiles miles finds fined bind mind kind
    colder older holder boulder shoulder sand bend lend mend tend""".split()  # noqa: SIM905 - read as prose
)


def squeeze(text: str) -> str:
    """One line: trimmed, runs of blanks as one, cut at a bound."""
    return " ".join(text[:MAX_TEXT].split())


def distance(left: str, right: str, limit: int) -> int:
    """Edits (a swap is one) from one word to the other; ``limit + 1`` means more."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        here = [i]
        for j, b in enumerate(right, 1):
            cost = min(row[j] + 1, here[j - 1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            here.append(cost)
        if min(here) > limit:
            return limit + 1
        before, row = row, here
    return row[-1]


def corrected(text: str) -> str:
    """A short text with words that are nearly a command word made that word."""
    if len(text) > MAX_MENDED:
        return text

    def mend(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in VOCABULARY or word in _ORDINARY:
            return match[0]
        limit = 1 if len(word) < 8 else 2
        near = [known for known in VOCABULARY if distance(word, known, limit) <= limit]
        near.sort(key=lambda known: (distance(word, known, limit), known[0] != word[0], known))
        return near[0] if near else match[0]

    files = [match.span() for match in _FILE.finditer(text)]
    parts: list[str] = []
    at = 0
    for start, end in files:
        parts += [_WORD.sub(mend, text[at:start]), text[start:end]]
        at = end
    return "".join([*parts, _WORD.sub(mend, text[at:])])


def quoted(text: str) -> str:
    """The first quoted piece, without its quotes; ``""`` where there is none."""
    match = _QUOTED.search(text)
    return (match[1] or match[2]).strip() if match else ""


def file_names(text: str) -> list[str]:
    """What looks like a file name, in order, without repeats."""
    return list(dict.fromkeys(match[0].rstrip(".") for match in _FILE.finditer(text)))


def looks_like_file(text: str) -> bool:
    """The whole text is one file name."""
    return _FILE.fullmatch(text.strip()) is not None


def best_names(wanted: str, names: list[str]) -> list[str]:
    """The names that ``wanted`` most probably means: one is sure, several are a question."""
    want = wanted.strip().lower().removeprefix("./").rstrip("/")
    if not want:
        return []
    rules = (
        lambda name: name == wanted.strip().removeprefix("./"),
        lambda name: name.lower() == want,
        lambda name: _base(name) == want,
        lambda name: _stem(name) == want,
        lambda name: _flat(_stem(name)) == _flat(want),
        lambda name: len(want) > 2 and _base(name).startswith(want),
        lambda name: len(want) > 2 and _flat(want) in _flat(_base(name)),
        lambda name: len(want) > 3 and distance(_base(name), want, 2) <= 2,
        lambda name: len(want) > 3 and distance(_stem(name), want, 1) <= 1,
    )
    for rule in rules:
        found = [name for name in names if rule(name)]
        if found:
            return found
    return []


def slug(text: str, fallback: str) -> str:
    """A file's stem made of letters, digits and dashes."""
    flat = re.sub(r"[^\w]+", "-", text.lower()).strip("-_")[:40].strip("-_")
    return flat or fallback


def _base(name: str) -> str:
    return name.lower().rsplit("/", 1)[-1]


def _stem(name: str) -> str:
    base = _base(name)
    return base.rsplit(".", 1)[0] if "." in base[1:] else base


def _flat(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())
