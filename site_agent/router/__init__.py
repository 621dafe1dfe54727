"""Router: pulls each remote channel to this site once, and serves all its local readers.

    remote site --Pull--> pull --epochs--> copy (a ChannelLog here) --> ports and results of this site
                <--acknowledge-- what all local readers acknowledged

`router` keeps the books, `pull` is the transfer of one channel, `storing` its way to the disk, `refetch` fetches one
damaged epoch again, `readers` says who reads here, `links` holds the connections, `meter` finds out what they carry.
"""

from site_agent.router.links import LinkUsage
from site_agent.router.meter import LinkTransfer
from site_agent.router.pull import PullSettings
from site_agent.router.router import ChannelUsage, Router

__all__ = ["ChannelUsage", "LinkTransfer", "LinkUsage", "PullSettings", "Router"]
