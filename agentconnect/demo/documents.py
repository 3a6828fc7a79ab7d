"""The files that the demonstration makes: real facts about the folder, no invented prose. Pure."""

import csv
import html
import io
import json
from dataclasses import dataclass

from agentconnect.demo.files import Entry, size_text

_CREDIT = "Made by the demonstration agent of agentconnect, which has no language model."
_BAR_WIDTH = 420


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What there is to write about."""

    topic: str
    today: str
    entries: tuple[Entry, ...]
    requests: tuple[str, ...]
    author: str = ""

    @property
    def title(self) -> str:
        """A heading; ``Report`` where no topic was given."""
        return self.topic[:1].upper() + self.topic[1:] if self.topic else "Report"


def make(form: str, facts: Facts) -> str:
    """The document in one of the forms csv, html, svg, json, txt, md."""
    makers = {"csv": _csv, "html": _html, "svg": _svg, "json": _json, "txt": _txt}
    return makers.get(form, _markdown)(facts)


def _files(facts: Facts) -> list[Entry]:
    return [entry for entry in facts.entries if not entry.folder][:100]


def _csv(facts: Facts) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["file", "bytes"])
    writer.writerows([_harmless(entry.name), entry.size] for entry in _files(facts))
    return out.getvalue()


def _harmless(name: str) -> str:
    return f"'{name}" if name[:1] in "=+-@" else name  # a spreadsheet would run it as a formula


def _markdown(facts: Facts) -> str:
    files = _files(facts)
    lines = [f"# {facts.title}", "", f"Written on {facts.today}{_by(facts)}.", ""]
    lines += ["## The working folder", ""]
    if files:
        total = sum(entry.size for entry in files)
        lines += [f"{len(files)} files, {size_text(total)} together.", ""]
        lines += ["| file | size |", "| --- | --- |"]
        lines += [
            f"| {entry.name.replace('|', '/')} | {size_text(entry.size)} |" for entry in files
        ]
    else:
        lines += ["It holds no files yet."]
    if facts.requests:
        lines += ["", "## What was asked so far", ""]
        lines += [f"{number}. {said}" for number, said in enumerate(facts.requests, 1)]
    lines += ["", "---", "", _CREDIT]
    if facts.topic:
        lines += [f"A real agent would write about “{facts.topic}” here."]
    return "\n".join(lines) + "\n"


def _txt(facts: Facts) -> str:
    lines = [facts.title, "=" * len(facts.title), "", f"Written on {facts.today}{_by(facts)}.", ""]
    lines += [f"- {entry.name} ({size_text(entry.size)})" for entry in _files(facts)]
    return "\n".join([*lines, "", _CREDIT]) + "\n"


def _json(facts: Facts) -> str:
    files = [{"file": entry.name, "bytes": entry.size} for entry in _files(facts)]
    return json.dumps({"title": facts.title, "date": facts.today, "files": files}, indent=2) + "\n"


def _html(facts: Facts) -> str:
    rows = "\n".join(
        f"<tr><td>{html.escape(entry.name)}</td><td>{html.escape(size_text(entry.size))}</td></tr>"
        for entry in _files(facts)
    )
    title = html.escape(facts.title)
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 40rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ border-bottom: 1px solid #ccc; padding: .3rem .5rem; text-align: left; }}
</style></head>
<body>
<h1>{title}</h1>
<p>Written on {html.escape(facts.today + _by(facts))}.</p>
<table><thead><tr><th>File</th><th>Size</th></tr></thead><tbody>
{rows}
</tbody></table>
<p><small>{html.escape(_CREDIT)}</small></p>
</body></html>
"""


def _svg(facts: Facts) -> str:
    """A bar for each of the largest files."""
    files = sorted(_files(facts), key=lambda entry: -entry.size)[:12]
    biggest = max((entry.size for entry in files), default=1) or 1
    height = 90 + 32 * max(1, len(files))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" '
        f'viewBox="0 0 720 {height}" font-family="sans-serif" font-size="14">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="20" y="34" font-size="20" fill="#1d2a3a">{html.escape(_heading(facts))}</text>',
    ]
    for row, entry in enumerate(files):
        y = 60 + 32 * row
        width = max(2, round(_BAR_WIDTH * entry.size / biggest))
        name = html.escape(entry.name if len(entry.name) <= 24 else "…" + entry.name[-23:])
        parts += [
            f'<text x="190" y="{y + 15}" text-anchor="end" fill="#1d2a3a">{name}</text>',
            f'<rect x="200" y="{y}" width="{width}" height="20" rx="3" fill="#3a7bd5"/>',
            f'<text x="{206 + width}" y="{y + 15}" fill="#51606f">{size_text(entry.size)}</text>',
        ]
    if not files:
        parts.append(
            '<text x="20" y="75" fill="#51606f">The working folder holds no files yet.</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _heading(facts: Facts) -> str:
    return facts.title[:60] if facts.topic else "Sizes of the files here"


def _by(facts: Facts) -> str:
    return f" for {facts.author}" if facts.author else ""
