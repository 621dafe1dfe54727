from __future__ import annotations

from datetime import timedelta

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.base.options import idle_timeout_of


def test_idle_timeout() -> None:
    assert idle_timeout_of({}) == timedelta(seconds=30)
    assert idle_timeout_of({"idle_timeout": "2 s"}) == timedelta(seconds=2)
    with pytest.raises(ConnectorError, match="idle_timeout") as caught:
        idle_timeout_of({"idle_timeout": "soon"})
    assert "'30 seconds'" in caught.value.hint
