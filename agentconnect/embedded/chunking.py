"""Cutting a long answer into messages (relay-wire.md §20)."""

LIMIT_CHARS = 12_000


def chunks(body: str, limit: int = LIMIT_CHARS) -> list[str]:
    """Pieces of at most ``limit`` characters, cut at blank lines, then lines, then anywhere."""
    pieces, rest = [], body
    while len(rest) > limit:
        cut = rest.rfind("\n\n", 1, limit)
        if cut <= 0:
            cut = rest.rfind("\n", 1, limit)
        if cut <= 0:
            cut = limit
        pieces.append(rest[:cut])
        rest = rest[cut:].lstrip("\n")
    if rest.strip():
        pieces.append(rest)
    return pieces
