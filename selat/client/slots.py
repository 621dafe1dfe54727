"""A client's calls about slots and who holds them."""

from __future__ import annotations

from selat.client.calls import Calls
from selat.errors import Detail, InvalidArgument
from selat.framework import Framework, SlotWatch
from selat.leases import FrameworkInfo, SlotInfo, framework_info
from selat.v1 import lease_pb2

_MOST_SLOTS = 2**32 - 1


class SlotCalls(Calls):
    """Slots, and the frameworks that share them."""

    def slots(self) -> list[SlotInfo]:
        """Every slot, busy ones included, by site and index."""
        with self.watch_slots() as watch:
            return list(next(watch).slots)

    def watch_slots(self) -> SlotWatch:
        """All slots, then what changes, until the watch is closed."""
        return SlotWatch(self._session)

    def register_framework(self, name: str, *, comment: str = "") -> Framework:
        """Makes a framework known, so that it can take slots; one that is known stays as it is.

        Raises StatementError when the name cannot be one.
        """
        request = lease_pb2.RegisterFrameworkRequest(name=name, comment=comment)
        return Framework(
            self._session, self._session.ask(self._session.leases.RegisterFramework, request).framework.name
        )

    def frameworks(self) -> list[FrameworkInfo]:
        """All frameworks, by name."""
        answer = self._session.ask(self._session.leases.ListFrameworks, lease_pb2.ListFrameworksRequest())
        return [framework_info(f) for f in answer.frameworks]

    def set_quota(self, framework: str, quota: int | None) -> FrameworkInfo:
        """Limits how many slots a framework is granted (None: not at all); what it holds stays its. Raises NotFound."""
        if quota is not None and not 0 <= quota <= _MOST_SLOTS:
            raise InvalidArgument(f"{quota} is no number of slots", detail=Detail(hint="0 or more; None is no quota"))
        request = lease_pb2.SetQuotaRequest(name=framework, quota=quota)
        return framework_info(self._session.ask(self._session.leases.SetQuota, request).framework)
