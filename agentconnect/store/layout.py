"""Every path of the state folder, in one place (worker.md §18). Nobody else joins paths.

``state_dir`` is the folder the settings call the workspace; ``instance`` names the sub-folder of
the relay client. Folders are made 0700.
"""

from pathlib import Path

import msgspec

CLAIMS = "~/.agent-connect/pollers"
"""Per user, not per state folder: who polls with which token (relay-wire.md §15)."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The names below one state folder."""

    state_dir: Path
    instance: str = "default"

    @property
    def lock(self) -> Path:
        """Held by ``flock`` for the life of the process; never unlinked."""
        return self.state_dir / "lock"

    @property
    def status(self) -> Path:
        return self.state_dir / "status.json"

    @property
    def sessions(self) -> Path:
        return self.state_dir / "sessions.json"

    @property
    def children(self) -> Path:
        return self.state_dir / "children.json"

    @property
    def access(self) -> Path:
        return self.state_dir / "access.json"

    @property
    def inline(self) -> Path:
        """Pictures an agent produced inline, until their result is accepted."""
        return self.state_dir / "inline"

    @property
    def export(self) -> Path:
        return self.state_dir / "export"

    @property
    def deliveries(self) -> Path:
        """Worker id, bindings and ledger of deferred deliveries. Must not be lost."""
        return self.state_dir / "deliveries.db"

    @property
    def older_deliveries(self) -> tuple[Path, Path, Path]:
        """The three files an older worker kept instead: id, ledger, bindings. Imported once."""
        folder = self.state_dir
        return folder / "worker-id", folder / "deliveries.json", folder / "bindings.json"

    @property
    def daemon_token(self) -> Path:
        """The bearer of the daemon's API, where the environment brings none."""
        return self.state_dir / "daemon-token"

    @property
    def workspaces(self) -> Path:
        """Which folders the daemon serves beside the primary one. The owner's to write."""
        return self.state_dir / "workspaces.json"

    def workspace_dir(self, workspace_id: str) -> Path:
        """What belongs to one workspace of the daemon; made when first written to."""
        return self.state_dir / "workspaces" / workspace_id

    def schedules(self, workspace_id: str) -> Path:
        """The scheduled tasks of a workspace. Must not be lost."""
        return self.workspace_dir(workspace_id) / "scheduled_tasks.json"

    def channels(self, workspace_id: str) -> Path:
        """The IM channels of a workspace. The owner's to write."""
        return self.workspace_dir(workspace_id) / "channels.json"

    def channel_files(self) -> dict[str, Path]:
        """The channels of every workspace that has some, by the workspace's id."""
        found = sorted((self.state_dir / "workspaces").glob("*/channels.json"))
        return {path.parent.name: path for path in found}

    @property
    def relay_dir(self) -> Path:
        return self.state_dir / "relay" / self.instance

    @property
    def journal(self) -> Path:
        return self.relay_dir / "journal.db"

    @property
    def legacy_journal(self) -> Path:
        """The reference client's journal, imported once."""
        return self.relay_dir / "journal.jsonl"

    @property
    def connection_status(self) -> Path:
        return self.relay_dir / "connection-status.json"

    @property
    def guard(self) -> Path:
        return self.relay_dir / "poller.lock"

    @property
    def media(self) -> Path:
        return self.relay_dir / "media"

    def prepare(self) -> None:
        """Make the folders, ours alone to read. Raises: OSError."""
        for folder in (self.state_dir, self.relay_dir.parent, self.relay_dir, self.media):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
