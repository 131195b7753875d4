"""The two paths of a read."""

import pytest

from regard.attention import Attend


@pytest.fixture(params=["plain", "fused"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Forces one of the two paths, whatever the sizes."""
    monkeypatch.setattr(Attend, "fused", request.param == "fused")
    return request.param
