"""What each connector declares: for which relations it is, its options, and its traits. A module each.

    table  the connectors that are declared, and what a binding's options are checked by
    spec   the form of a declaration
    common options that several connectors take

A declaration is pure: the master checks statements by it, and has none of what the connector works with. The work is
the site agent's (`site_agent.connectors`).
"""
