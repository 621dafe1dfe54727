"""The arguments of an agent that say where and how its Spark runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from machine.bearer import TokenFileError, read_token
from site_agent.base.errors import SiteAgentError
from site_agent.engine.cluster.tls import SECRET, contradiction
from site_agent.engine.jvm.session import SparkOptions

_OPTIONS_OF_SETTINGS = {
    "spark.master": "--spark-master",
    "spark.driver.memory": "--driver-memory",
    # Other users of the machine can read a command line.
    SECRET: "--spark-secret-file",
}


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--spark-master",
        metavar="URL",
        help="spark://..., k8s://..., yarn or local-cluster[...] (default local[slots])",
    )
    parser.add_argument("--driver-memory", default="1g", help="heap of the Spark driver (default %(default)s)")
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark, as spark.executor.memory=4g; repeatable",
    )
    parser.add_argument(
        "--spark-secret-file",
        type=Path,
        metavar="FILE",
        help="has the spark.authenticate.secret of a standalone cluster; needed there with --tls-dir, which has the "
        "connections between driver and executors authenticated and encrypted",
    )
    parser.add_argument(
        "--files-port",
        type=int,
        default=0,
        metavar="PORT",
        help="where executors of a cluster fetch files of this agent (default: a free one)",
    )


def spark_options(values: argparse.Namespace) -> SparkOptions:
    """The options in the arguments; a cluster is encrypted with `--tls-dir`, unless `--insecure` is given.

    Raises:
        SiteAgentError: a setting is none, or a cluster that has to be encrypted cannot be as it is set.
    """
    secret = _spark_secret(values.spark_secret_file) if values.spark_secret_file is not None else ""
    spark = SparkOptions(
        values.spark_master, values.driver_memory, settings=_settings(values.spark_conf), secret=secret
    )
    if values.insecure or values.tls_dir is None or not spark.executors_elsewhere:
        return spark
    if against := contradiction(spark.settings):
        raise SiteAgentError(
            f"--spark-conf {against}={spark.settings[against]} leaves the connections to executors open",
            hint="leave it out, or give --insecure in a network of hosts that you trust",
        )
    if not secret and spark.standalone:
        raise SiteAgentError(
            f"the cluster {spark.master_url} has to be told a secret, so that its connections can be encrypted",
            hint="give --spark-secret-file with the cluster's spark.authenticate.secret, or --insecure in a network of "
            "hosts that you trust",
        )
    return replace(spark, encrypted=True)


def _spark_secret(file: Path) -> str:
    try:
        return read_token(file)
    except TokenFileError as error:
        raise SiteAgentError(f"--spark-secret-file cannot be used: {error}", hint=error.hint) from None


def _settings(texts: Sequence[str]) -> Mapping[str, str]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise SiteAgentError(
                f"--spark-conf {text!r} is not KEY=VALUE", hint="for example --spark-conf spark.executor.memory=4g"
            )
        if key in _OPTIONS_OF_SETTINGS:
            raise SiteAgentError(f"--spark-conf cannot set {key}", hint=f"use {_OPTIONS_OF_SETTINGS[key]}")
        settings[key] = value
    return settings
