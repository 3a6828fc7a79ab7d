"""``python -m agentconnect`` and the console script ``agent-connect``: the same program."""

import sys

from agentconnect.cli.main import main as cli_main


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(cli_main(sys.argv[1:]))


if __name__ == "__main__":
    main()
