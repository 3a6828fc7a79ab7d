"""What we know of well-known agents, as data (worker.md §8.1; acp-agents.md).

A preset says how to start the agent, which mode of it asks for permission, whether its
``authMethods`` tell anything, and what to advise. The installer repeats the pins; a test compares.
"""

import shutil

import msgspec

BRIDGE_VERSION = "0.64.2"
"""The pinned version of the Claude bridge."""
ACP_BRIDGE_SPEC = f"@agentclientprotocol/claude-agent-acp@{BRIDGE_VERSION}"


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One agent by name. ``package`` is what ``npx`` runs where ``binary`` is not installed."""

    name: str
    binary: str
    args: tuple[str, ...] = ()
    package: str = ""
    install: str
    login: str
    asking_mode: str = ""
    auth_list_counts: bool = False
    """A non-empty ``authMethods`` means that nobody is logged in; true of one agent only."""

    def command(self, path: str) -> tuple[str, ...]:
        """The words that start it: the installed binary, else ``npx`` with the pinned package."""
        if not self.package or shutil.which(self.binary, path=path):
            return (self.binary, *self.args)
        return ("npx", "-y", self.package, *self.args)


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="claude",
            binary="claude-agent-acp",
            package=ACP_BRIDGE_SPEC,
            install=f"npm install -g {ACP_BRIDGE_SPEC}",
            login="run `claude`, then `/login` (or `claude setup-token`)",
            asking_mode="default",
            auth_list_counts=True,
        ),
        Preset(
            name="gemini",
            binary="gemini",
            args=("--acp",),
            package="@google/gemini-cli@0.61.0",
            install="npm install -g @google/gemini-cli@0.61.0",
            login="run `gemini`, then `/auth`",
            asking_mode="default",
        ),
        Preset(
            name="codex",
            binary="codex-acp",
            package="@zed-industries/codex-acp@0.16.0",
            install="npm install -g @zed-industries/codex-acp@0.16.0",
            login="run `codex login`",
        ),
        Preset(
            name="qwen",
            binary="qwen",
            args=("--acp",),
            package="@qwen-code/qwen-code@0.24.4",
            install="npm install -g @qwen-code/qwen-code@0.24.4",
            login="run `qwen`, then `/auth`",
            asking_mode="default",
        ),
        Preset(
            name="opencode",
            binary="opencode",
            args=("acp",),
            package="opencode-ai@1.18.33",
            install="npm install -g opencode-ai@1.18.33",
            login="run `opencode auth login`",
        ),
        Preset(
            name="vibe",
            binary="vibe-acp",
            install="uv tool install mistral-vibe==3.0.2",
            login="run `vibe-acp --setup`",
            asking_mode="ask",
        ),
    )
}
