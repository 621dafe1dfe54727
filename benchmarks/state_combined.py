"""A window of very many groups at a site that combines them: memory of the task, and what its checkpoints write.

    python -m benchmarks.state_combined [--groups 10000000] [--record FILE]

As `benchmarks.state`, with a combining task in place of the merge, as a site between has it: it holds the groups that
three sites send until the window closes, and sends each once.
"""

from __future__ import annotations

import sys

from benchmarks.report import publish
from benchmarks.state import described, parser_of, run_scene


def main() -> int:
    """Exit code: 1 when what it sent is not DuckDB's."""
    arguments = parser_of(__doc__).parse_args()
    found, wrong = run_scene("combined", arguments)
    findings = {
        "right": float(not wrong),
        "python": found.python_mib,
        "jvm": found.jvm_mib,
        "written": found.written_bytes / found.changed_bytes,
        "late": found.late_s,
    }
    text = (
        f"{found.read_s:.0f} s to read all rows and send the first groups, {found.close_s:.0f} s more to send the last."
    )
    title = "A window of very many groups at a site that combines"
    publish("state_combined", title, [*described(found), text], arguments.record, findings)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
