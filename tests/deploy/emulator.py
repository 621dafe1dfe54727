"""The emulated AWS, run with the tools' Python: moto's server, where what a machine's description lacks is put right.

EC2 describes a machine that was started with a network interface by that interface's security groups. Moto describes it
without any, so that Terraform would add them again for ever.
"""

from __future__ import annotations

from typing import Any

from moto.ec2.models.instances import Instance  # type: ignore[import-not-found]
from moto.server import main  # type: ignore[import-not-found]

_attach_interfaces = Instance.prep_nics


def _attach_interfaces_and_take_their_groups(machine: Any, *given: Any, **named: Any) -> None:
    _attach_interfaces(machine, *given, **named)
    if not machine.security_groups:
        # The interface's own list: `group_set` adds the machine's, which are what is wanted here.
        machine.security_groups = list(machine.nics[0]._group_set)


if __name__ == "__main__":
    Instance.prep_nics = _attach_interfaces_and_take_their_groups
    main()
