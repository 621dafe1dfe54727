"""Channels: the ordered, replayable output of one task, kept as epochs on this site's disk.

    publish --> codec (Arrow, zstd) --> epoch file --rename--> log --> readers, exchange --> acknowledge --> trim

`log` is one channel, `store` all of a site's; `epoch_file` is the format on disk, `codec` the payload that
disk and wire share.
"""
