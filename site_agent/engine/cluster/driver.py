"""A session on a cluster: the file server that its executors fetch from, and the ports at which its driver listens."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from site_agent.engine.cluster import tls as cluster_tls
from site_agent.engine.cluster.file_server import FileServer


def serve_files(session: SparkSession, *, scratch: Path, port: int, encrypted: bool) -> FileServer:
    """A server at the address at which executors reach the driver.

    Args:
        session: It was started with the same scratch directory, and encrypted or not likewise.
        scratch: The agent's directory for files of one start.
        port: 0 takes a free one.
        encrypted: Whether it answers with TLS.

    Raises:
        OSError: the port is taken, or the disk cannot be written.
    """
    context = session.sparkContext
    conf = context.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    bind = conf.get("spark.driver.bindAddress") or host
    if not encrypted:
        return FileServer(bind=bind, host=host, port=port)
    tls, for_executors = cluster_tls.new_certificate(scratch.absolute())
    for file in for_executors:
        context.addFile(str(file))
    return FileServer(bind=bind, host=host, port=port, tls=tls)


def driver_ports(session: SparkSession) -> frozenset[int]:
    """Those of Spark's own protocol: the driver's and its block manager's."""
    environment = session.sparkContext._jsc.sc().env()
    address, blocks = environment.rpcEnv().address(), environment.blockManager().blockManagerId()
    return frozenset((int(address.port()), int(blocks.port())))
