"""One agent per region: runs this site's tasks on PySpark, keeps their channels, and exchanges them with other sites.

    connectors --scan--> tasks --SQL--> engine (Spark) --rows--> channels <--exchange/router--> other sites' channels

The agent does what its assignment says, whole and again after every change; it goes on while the master is away.
"""

from wire import tls13

tls13.require()
