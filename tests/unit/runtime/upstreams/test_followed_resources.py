"""Who hears that a resource of another server changed."""

from __future__ import annotations

import pytest

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.runtime.upstreams.followed_resources import FollowedResources


def test_followers_of_a_resource_hear_of_it_until_they_leave() -> None:
    heard: list[str] = []

    def one() -> None:
        heard.append("one")

    def other() -> None:
        heard.append("other")

    followed = FollowedResources()
    followed.follow("shop", "a", one)
    followed.follow("shop", "a", other)
    followed.follow("office", "a", one)
    followed.updated("shop", "a")
    followed.updated("shop", "b")
    assert heard == ["one", "other"]
    followed.leave("shop", "a", one)
    followed.lost("shop")
    assert heard == ["one", "other", "other"]
    followed.leave("shop", "a", other)
    followed.leave("shop", "a", other)
    assert (followed.wanted("shop"), followed.wanted("office")) == (frozenset(), frozenset({"a"}))


def test_a_server_is_asked_for_so_many_resources_and_no_more() -> None:
    followed = FollowedResources()
    for number in range(limits.UPSTREAM_FOLLOWED_MAX):
        followed.follow("shop", str(number), lambda: None)
    followed.follow("shop", "0", lambda: None)
    with pytest.raises(LimitExceeded):
        followed.follow("shop", "new", lambda: None)
