"""The `compool` command. It needs more packages than the layers do."""

import sys
from importlib.util import find_spec

NEEDED = ("typer", "rich", "scipy", "matplotlib", "networkx", "safetensors")  # the extra `study`


def main() -> None:
    """Run the command, or exit with a message that says what to install."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        sys.exit(f"compool: the command needs {', '.join(missing)}: pip install -c constraints.txt '.[study]'")
    from compool.cli import app

    app()


if __name__ == "__main__":
    main()
