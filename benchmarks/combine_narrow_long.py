"""`benchmarks.combine_narrow` with windows of ten minutes, which take an hour.

python -m benchmarks.combine_narrow_long [--links 1 20] [--record FILE]
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.combine_narrow import LONG, add_links, run
from benchmarks.report import make_parser


def main() -> int:
    parser = make_parser(__doc__)
    add_links(parser)
    arguments: argparse.Namespace = parser.parse_args()
    run("combine_narrow_long", "Each group once over narrow links: windows of ten minutes", [LONG], arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
