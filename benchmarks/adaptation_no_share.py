"""As `benchmarks.adaptation`, with queries that are placed without regard to links.

    sudo python -m benchmarks.adaptation_no_share [--settle 120] [--record FILE]

Each merge is at the site of an input, whatever its links are, so that there is something left to be decided. Needs
root; ends after 16 times `--settle` and ten minutes.
"""

from __future__ import annotations

import sys

from benchmarks.adaptation import NO_SHARE, parts_of, played
from benchmarks.report import publish


def main() -> int:
    done = played(NO_SHARE, __doc__)
    if done is None:
        return 1
    runs, arguments = done
    title = "Queries while a WAN changes, placed without regard to links"
    publish("adaptation_no_share", title, parts_of(runs, NO_SHARE), arguments.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
