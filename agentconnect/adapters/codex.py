"""codex: ``codex exec`` in its own sandbox, which the operating system enforces (worker.md §6, §7).

The one command-line adapter that serves guests: what they ask for runs read-only and offline.
"""

from agentconnect.adapters.child import Command
from agentconnect.adapters.oneshot import Run
from agentconnect.core.turns import oneshot
from agentconnect.core.turns.cli_text import codex_errors
from agentconnect.core.turns.events import Done
from agentconnect.core.turns.oneshot import Ask, Output, Sandbox

_NETWORK = ("-c", "sandbox_workspace_write.network_access=true")


class Codex:
    """The program ``codex``."""

    name = "codex"
    serves_guests = True
    binary = "codex"
    setting = ""
    install = "Install it with: npm install -g @openai/codex; then log in with: codex login"

    def __init__(self, *, network: bool = False) -> None:
        """``network``: the owner's turns get the network inside the sandbox."""
        self._network = network

    def command(self, ask: Ask) -> Command:
        """The command line; a long message goes through stdin."""
        writes = ask.sandbox is Sandbox.WORKSPACE_WRITE
        prompt = ask.prompt
        as_word = oneshot.word(prompt) if "\0" not in prompt else None
        return Command(
            argv=(
                self.binary,
                "exec",
                "--sandbox",
                (Sandbox.WORKSPACE_WRITE if writes else Sandbox.READ_ONLY).value,
                *(_NETWORK if writes and self._network else ()),
                "--skip-git-repo-check",
                "--cd",
                ask.cwd,
                "-" if as_word is None else as_word,
            ),
            stdin=oneshot.encoded(prompt) if as_word is None else None,
        )

    async def answer(self, ask: Ask, run: Run) -> Done:
        """One run; stderr, where codex logs, speaks only where stdout is empty."""
        output = await run(self.command(ask))
        log = codex_errors(output.err, ask.prompt)
        output = Output(code=output.code, out=output.out, err=log)
        return oneshot.ending(
            self.name, output, self.said(output.out), error_tail=False, error_answers=True
        )

    def said(self, out: str) -> str:
        """All of stdout: codex writes the last message there and nothing else."""
        return oneshot.uncoloured(out)
