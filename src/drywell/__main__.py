"""`python -m drywell` is `drywell`."""

import sys

from drywell.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
