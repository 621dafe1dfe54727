"""A WAN on one machine: a network namespace per site, and links between them that can be slowed, severed and healed.

`selat wan up` makes it, `selat dev --netns` runs a cluster in it. Linux and root only; docs/wan.md.

    layout      names and addresses                      (pure)
    shaping     a link's figures as commands of tc       (pure)
    changes     `us->eu bandwidth=5Mbit/s` and scenarios (pure)
    system      runs ip and tc
    probe       what this kernel can do
    backends    how delay, jitter and loss come about
    emulation   up, set, sever, heal, down
"""
