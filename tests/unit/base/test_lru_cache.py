"""A bounded cache drops the least recently used value, and values of a store are dropped when the store changes."""

from __future__ import annotations

from itertools import count

from penstock.base.lru_cache import CurrentValues, LruCache


def test_the_least_recently_used_value_is_dropped() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_change_of_the_store_drops_what_was_read_before() -> None:
    mark: list[int | None] = [1]
    values: CurrentValues[str, int] = CurrentValues(lambda: mark[0], 10)
    before = values.at_hand()
    before.put("a", 1)
    assert values.at_hand().get("a") == 1
    mark[0] = 2
    after = values.at_hand()
    before.put("a", 1)  # read before the change, stored after it
    assert after.get("a") is None


def test_nothing_is_kept_while_the_store_gives_a_new_mark_at_every_question() -> None:
    marks = count(-1, -1)
    values: CurrentValues[str, int] = CurrentValues(lambda: next(marks), 10)
    values.at_hand().put("a", 1)
    assert values.at_hand().get("a") is None
