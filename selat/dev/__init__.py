"""A whole cluster on one machine: a master, the agents of all sites, and their supervisor.

    selat dev -> DevCluster -> Child (a thread each) -> python -m master
                                                     -> python -m site_agent   (all sites; with --isolated one each)

The only package of `selat` that starts servers. A child that dies is started again; all of them die with the process
that watches over them, however that one ends. What runs is written down in the data directory, so that `selat dev stop`
finds it.
"""

from selat.dev.child import ChildState, ChildStatus
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from selat.local.errors import DevError

__all__ = ["ChildState", "ChildStatus", "ClusterOptions", "DevCluster", "DevError"]
