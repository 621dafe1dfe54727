"""Who may work in the site's slots: the holder of the newest lease that a worker or the master has named.

    worker --Occupy(slot, number)--> guard --admitted, expired, renewed, over--> worker
    master --Watch(site)--> follow --> guard

The largest number that was admitted to a slot is on disk before the worker is told: old work stays out after a restart,
and while the master is away. What the agent does not know ends nothing.
"""
