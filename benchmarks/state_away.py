"""A site away for half an hour: memory of a merge that goes on reading what the others send, and catching up.

    python -m benchmarks.state_away [--epochs 1800] [--record FILE]

As `benchmarks.state`: two sites send an epoch a second for `--epochs` seconds, with 50,000 groups in each window of
10 s, and the third nothing, so that no window closes; then the third sends all of its own. The merge reads as fast as
it can.
"""

from __future__ import annotations

import sys

from benchmarks.report import publish
from benchmarks.state import described, parser_of, run_scene


def main() -> int:
    """Exit code: 1 when results are not DuckDB's."""
    arguments = parser_of(__doc__).parse_args()
    found, wrong = run_scene("away", arguments)
    findings = {
        "right": float(not wrong),
        "flat": found.late_mib / found.early_mib,
        "written": found.written_bytes / found.changed_bytes,
        "late": found.late_s,
    }
    text = (
        f"Python had {found.early_mib:.0f} MiB at most in the second fifth of what the two sites sent, "
        f"{found.late_mib:.0f} MiB in the last. {found.caught_up_s:.0f} s after the third was back, all was merged."
    )
    publish("state_away", "A site away for half an hour", [*described(found), text], arguments.record, findings)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
