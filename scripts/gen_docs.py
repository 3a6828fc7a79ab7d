"""Writes the pages that are made from the code's own tables; ``--check`` only compares.

A page is a file name and a function that gives its whole text; ``PAGES`` lists them.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from agentconnect.config.envfile import DEFAULT_CONFIG
from agentconnect.config.kinds import Kind, Setting
from agentconnect.config.table import INSTALLER, RETIRED, TABLE

DOCS = Path(__file__).resolve().parent.parent / "docs"

_SETTINGS_HEAD = f"""# Settings

<!-- made by scripts/gen-docs from agentconnect/config/table.py: change it there -->

Each setting is an environment variable, or a line `NAME=value` in the config file
(`{DEFAULT_CONFIG}`, or the one named by `--config` or `AGENT_CONNECT_CONFIG`). Where both set
one, the environment wins; a variable that is empty or blank counts as not set. Settings are read
once, at start.

How the config file is read: one setting a line; lines that start with `#` are comments; one pair of
quotes around a value is removed; nothing is expanded and nothing is run. Repeated names (the last
line counts), names that are not settings and lines that are neither are named on stderr, never with
their values. `agent-connect --export-config` prints the file as shell lines. The file holds the
token, so keep it to yourself: `chmod 600`.

How values are read: blanks at both ends are dropped, and a blank value means "not set". `~` is the
home directory; a relative path starts where the worker was started. A flag is switched off by `0`,
`false`, `no` or `off`, and on by `1`, `true`, `yes` or `on`; any other word leaves its default. A
number that cannot be read costs a warning and the default is used; it never stops the start.
"""


def settings_page() -> str:
    """``docs/settings.md``."""
    parts = [_SETTINGS_HEAD]
    rows = (*TABLE, *INSTALLER)
    for group in dict.fromkeys(setting.group for setting in rows):
        parts.append(f"## {group}\n\n| setting | value | default | meaning |\n|---|---|---|---|")
        parts.extend(_row(setting) for setting in rows if setting.group == group)
        parts.append("")
    retired = ", ".join(f"`{name}`" for name in RETIRED)
    parts.append(
        f"## Retired\n\nRead by nothing any more: {retired}. A config file may drop them.\n"
    )
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    value = setting.kind.value
    if setting.kind is Kind.CHOICE:
        value = ", ".join(f"`{choice}`" for choice in setting.choices)
    default = setting.default_doc or (f"`{setting.default}`" if setting.default else "not set")
    doc = setting.doc + (" **Secret.**" if setting.secret else "")
    cells = (f"`{setting.name}`", value, default, doc)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


PAGES: dict[str, Callable[[], str]] = {"settings.md": settings_page}


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` say which ones differ; 1 when one does."""
    if arguments not in ([], ["--check"]):
        print("usage: scripts/gen-docs [--check]", file=sys.stderr)
        return 2
    stale = 0
    for name, render in PAGES.items():
        page, text = DOCS / name, render()
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if arguments:
            print(f"docs/{name} is not what the code says: run scripts/gen-docs", file=sys.stderr)
        else:
            page.write_text(text, encoding="utf-8")
            print(f"docs/{name} written")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
