"""python -m rankbeat_cluster."""

import sys

from rankbeat_cluster import cli

if __name__ == "__main__":
    sys.exit(cli.main())
