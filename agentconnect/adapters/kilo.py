"""kilo: ``kilo run --auto``, a scaffold that no real kilo has confirmed (worker.md §7.1)."""

from agentconnect.adapters.child import Command
from agentconnect.adapters.oneshot import Run
from agentconnect.core.turns import oneshot, wording_cli
from agentconnect.core.turns.cli_text import kilo_answer
from agentconnect.core.turns.events import Done
from agentconnect.core.turns.oneshot import Ask


class Kilo:
    """The program ``kilo``."""

    name = "kilo"
    serves_guests = False
    setting = "AGENT_CONNECT_KILO_BIN"
    install = "Install the kilo CLI with: npm i -g @kilocode/cli; then log in with it"

    def __init__(self, *, binary: str = "kilo") -> None:
        self.binary = binary

    def command(self, ask: Ask, *, events: bool = False) -> Command | None:
        """The command line; None where the message is too long for one."""
        prompt = oneshot.word(ask.prompt)
        if prompt is None:
            return None
        form = ("--format", "json") if events else ()
        return Command(argv=(self.binary, "run", "--auto", *form, prompt))

    async def answer(self, ask: Ask, run: Run) -> Done:
        """One run; a second one for its events where the first ended well and wrote nothing."""
        command = self.command(ask)
        again = self.command(ask, events=True)
        if command is None or again is None:
            return oneshot.failure(wording_cli.too_long(self.name, oneshot.WORD_MAX_BYTES))
        output = await run(command)
        said = self.said(output.out)
        if not output.code and not said.strip():
            output = await run(again)
            said = kilo_answer(output.out)
        return oneshot.ending(self.name, output, said)

    def said(self, out: str) -> str:
        """All of stdout."""
        return oneshot.uncoloured(out)
