"""Channels: the ordered, replayable output of one task, kept as epochs on this site's disk.

    publish --> codec (Arrow, zstd) --> epoch file --rename--> log --> readers, exchange --> acknowledge --> trim

`store` has all channels of a site, `log` is one of them. Of that, `epochs` has what is there, `readers` who needs it,
`state` whether more can come, and `directory` does what is done to its files; `recovery` finds all of it again.
`epoch_file` is the format on disk, `codec` the payload that disk and wire share.
"""
