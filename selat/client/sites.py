"""A client's calls about sites."""

from __future__ import annotations

from selat.client.calls import Calls
from selat.client.members import Members, members
from selat.convert import sites as convert
from selat.v1 import site_pb2
from selat.values import Site


class SiteCalls(Calls):
    """Sites, and the members that run them."""

    def sites(self) -> list[Site]:
        """All sites, those included that were never seen."""
        answer = self._session.ask(self._session.sites.ListSites, site_pb2.ListSitesRequest())
        return [convert.site(s) for s in answer.sites]

    def site(self, name: str) -> Site:
        """The site of that name. Raises NotFound."""
        request = site_pb2.GetSiteRequest(name=name)
        return convert.site(self._session.ask(self._session.sites.GetSite, request).site)

    def members(self) -> Members:
        """The master and all agents as they are now: the master asks each of them."""
        return members(self._session.ask(self._session.sites.DescribeMembers, site_pb2.DescribeMembersRequest()))

    def drain_site(self, name: str) -> Site:
        """Gives the site no new work from now on; what runs there goes on. `Site.work` says what that is.

        Raises NotFound.
        """
        request = site_pb2.DrainSiteRequest(name=name)
        return convert.site(self._session.ask(self._session.sites.DrainSite, request).site)

    def undrain_site(self, name: str) -> Site:
        """Gives the site work again. Raises NotFound."""
        request = site_pb2.UndrainSiteRequest(name=name)
        return convert.site(self._session.ask(self._session.sites.UndrainSite, request).site)
