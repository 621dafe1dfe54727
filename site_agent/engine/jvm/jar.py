"""The classes in Java, compiled against one version of Spark by `scripts/build_jar`."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark

JAR = Path(__file__).parent.with_name("kept") / "epochs.jar"
_VERSION = "selat/pyspark-version"


def find_jar(path: Path = JAR) -> Path | None:
    """The jar for the installed Spark; None: it was not built, or for another version."""
    try:
        with zipfile.ZipFile(path) as jar:
            made_for = jar.read(_VERSION).decode().strip()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    return path if made_for == pyspark.__version__ else None
