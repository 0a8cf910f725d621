"""The command line: one file a verb; translates, does not compute."""

import sys

from sincere.cli.interrupts import leave_quietly
from sincere.cli.waiting import wait_briefly


def main() -> None:
    """Run the verb that the command line names."""
    leave_quietly()
    wait_briefly()
    try:
        from sincere.cli.app import app
        from sincere.cli.output import take_every_sign
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f'error: the command line needs {error.name}: pip install "sincere[lab]".', file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # importing takes a second or two
        print("error: interrupted.", file=sys.stderr)
        sys.exit(130)
    take_every_sign(sys.stdout, sys.stderr)
    app(prog_name="sincere")
