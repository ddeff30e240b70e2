"""Entry point of the command line, `python -m fastens`."""

import sys

from fastens.cli import main

if __name__ == "__main__":
    sys.exit(main())
