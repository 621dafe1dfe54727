"""Lints or renders a chart with Helm's own library: `python chart.py lint|template [--refused] CHART [KEY=VALUE ...]`.

It runs with the tools' Python. With `--refused` the values have to be refused, and the reason is printed.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import helm_python as helm

NAME, NAMESPACE = "trial", "selat"


def values_of(settings: list[str]) -> dict[str, Any]:
    """What `helm --set` would make of them; keys have no dots in them."""
    values: dict[str, Any] = {}
    for setting in settings:
        path, _, text = setting.partition("=")
        *parents, last = path.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
        words = {"true": True, "false": False, "null": None}
        place[last] = words[text] if text in words else int(text) if text.isdigit() else text
    return values


def lint(chart: str, values: dict[str, Any]) -> int:
    """Exit code: 1 when the linter has more to say than hints."""
    report = helm.lint(chart, values, strict=True)
    found = [m for m in report["messages"] if m["severity"] > 1]
    for message in report["messages"]:
        print(f"{message['path']}: {message['error']}")
    print(f"{report['total_charts_linted']} chart linted, {len(found)} complaints, {len(report['errors'])} errors")
    return 1 if found or report["errors"] else 0


def template(chart: str, values: dict[str, Any]) -> None:
    with helm.Chart.load(chart) as loaded:
        loaded.validate_schema(loaded.merge_values(values))
        for name, text in sorted(loaded.render(values, name=NAME, namespace=NAMESPACE, is_install=True).items()):
            if name.endswith(".yaml"):
                print(f"---\n# {name}\n{text}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["lint", "template"])
    parser.add_argument("--refused", action="store_true")
    parser.add_argument("chart")
    parser.add_argument("settings", nargs="*")
    arguments = parser.parse_args()
    values = values_of(arguments.settings)
    if arguments.what == "lint":
        return lint(arguments.chart, values)
    try:
        template(arguments.chart, values)
    except helm.HelmError as error:
        print(error)
        return 0 if arguments.refused else 1
    return 1 if arguments.refused else 0


if __name__ == "__main__":
    sys.exit(main())
