"""What a service is called, where its files are, and the PATH it gets (worker.md §17.4).

The default instance has the names of the published worker, so that installing replaces its service;
another instance adds its name to each of them.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

STANDARD = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
_SHORT_LIVED = re.compile(r"(/private)?/(run|var/run|tmp|var/folders)/")


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One worker that is to run for good. Paths are absolute."""

    home: Path
    config: Path
    command: tuple[str, ...]
    """What starts the worker; the first word is an absolute path."""
    path: str
    instance: str = "default"

    @property
    def unit(self) -> str:
        """systemd's name."""
        return f"agent-connect{self._mark('-')}.service"

    @property
    def unit_file(self) -> Path:
        return self.home / ".config" / "systemd" / "user" / self.unit

    @property
    def label(self) -> str:
        """launchd's name."""
        return f"space.ag2.agent-connect{self._mark('.')}"

    @property
    def plist_file(self) -> Path:
        return self.home / "Library" / "LaunchAgents" / f"{self.label}.plist"

    @property
    def folder(self) -> Path:
        return self.home / ".agent-connect"

    @property
    def launcher(self) -> Path:
        return self.folder / f"launch{self._mark('-')}.sh"

    @property
    def log(self) -> Path:
        """Where the output goes without a journal."""
        return self.folder / f"agent-connect{self._mark('-')}.log"

    def _mark(self, separator: str) -> str:
        return "" if self.instance == "default" else separator + self.instance


def service_path(environment: Mapping[str, str], command: tuple[str, ...]) -> str:
    """The PATH of the shell that installs, made fit to last.

    The agent, node and what they start are where that shell finds them. A folder that a version
    manager made for one shell only is replaced by where it leads; relative ones are left out.
    """
    found: dict[str, None] = {}
    for entry in environment.get("PATH", "").split(os.pathsep):
        if not entry.startswith("/") or "\n" in entry or not Path(entry).is_dir():
            continue
        found[str(Path(entry).resolve()) if _SHORT_LIVED.match(entry) else entry] = None
    for entry in (str(Path(command[0]).parent), *STANDARD):
        found[entry] = None
    return os.pathsep.join(found)
