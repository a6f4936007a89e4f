"""The command `vicinal` of this package: ``python -m vicinal``, and the script of that name that pip installs."""

import os
import signal
import sys
from pathlib import Path

_COMMAND = Path(__file__).parent / "bin" / "vicinal"


def main() -> None:
    """Becomes the command: its output, errors, signals and exit status are its own."""
    # Python ignores these two, and so would what it becomes: a pipe that is closed must end it.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(_COMMAND, ["vicinal", *sys.argv[1:]])
    except FileNotFoundError:
        print(f"vicinal: error [Unsupported]: this build of the package has no command ({_COMMAND}): CLI11, nlohmann_json or fmt "
              "was not there when it was built", file=sys.stderr)  # fmt: skip
        sys.exit(2)


if __name__ == "__main__":
    main()
