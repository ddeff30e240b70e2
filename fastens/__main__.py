"""`python -m fastens` is the command line."""

import sys

from fastens.cli import main

if __name__ == "__main__":
    sys.exit(main())
