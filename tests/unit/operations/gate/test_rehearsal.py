"""A rehearsal reads everything that can be read: a method that is missing from its table would end it early."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.operations.gate.context import AuditKeys
from penstock.operations.gate.rehearsal import READS, FirstEffect, ReadOnly
from penstock.runtime.ports.backups import BackupFolder
from penstock.runtime.ports.graphs import GraphStore
from penstock.runtime.upstreams.oauth.sign_ins import UpstreamSignIns
from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry
from tests.tidy.doors import CHANGING, READING

_LISTED = {"platform": "Database", "host": "Host", "scheduler": "Scheduler"}
"""Parts whose methods `tests/tidy/doors.py` tells apart already."""
_PROCESS = {
    "platform": {"close", "open"},
    "host": {
        "due",
        "follow_authors",
        "live",
        "live_runs",
        "may_perform",
        "perform_also",
        "reloaded",
        "subscribe",
    },
    "scheduler": {"nudge", "start", "stop"},
}
"""What only the process that performs runs asks for, and no handler."""
_WAITS = {"host": {"wait", "wait_for_end", "watched", "stop_waiting", "newest"}}
"""What waits for others, or makes the host go on; nothing that a call decides beforehand depends on it."""
_PORTS: dict[str, type] = {
    "graphs": GraphStore,
    "backups": BackupFolder,
    "sign_ins": UpstreamSignIns,
    "upstreams": UpstreamToolRegistry,
    "audit_keys": AuditKeys,
}
_EFFECTS: dict[str, set[str]] = {
    "graphs": {
        "abandon_load",
        "abandon_loads",
        "add_to_load",
        "apply_schema",
        "begin_load",
        "collect",
        "create_branch",
        "create_graph",
        "delete_branch",
        "delete_graph",
        "flatten",
        "keep_loads",
        "merge",
        "mutate",
        "publish_load",
        "sweep",
    },
    "backups": {"create", "remove"},
    "sign_ins": {
        "bearer",
        "begin",
        "close",
        "complete",
        "grants",
        "make_protocol",
        "protocol",
        "sign_out",
    },
    "upstreams": {
        "accept",
        "act",
        "changed",
        "connections",
        "followed",
        "forget",
        "keep_listing",
        "platform",
        "refuse",
        "resources_listed",
        "revoke",
        "state",
        "tools_listed",
    },
    "audit_keys": {"signing_key", "new_seed", "replace", "discard", "prepare"},
}


def _members(port: type) -> set[str]:
    declared = {name for base in port.__mro__ for name in getattr(base, "__annotations__", {})}
    return {name for name in {*dir(port), *declared} if not name.startswith("_")}


def test_every_part_of_the_table_is_held_to_a_port() -> None:
    assert set(READS) == {*_LISTED, *_PORTS}


@pytest.mark.parametrize("part", _LISTED)
def test_every_reading_method_of_stores_and_hosts_can_be_used(part: str) -> None:
    reading = READING[_LISTED[part]] - _PROCESS.get(part, set()) - _WAITS.get(part, set())
    assert not reading - READS[part]
    assert not READS[part] & CHANGING[_LISTED[part]]


@pytest.mark.parametrize("part", _PORTS)
def test_every_member_of_the_other_parts_is_a_read_or_an_effect(part: str) -> None:
    members = _members(_PORTS[part])
    assert members == READS[part] | _EFFECTS[part]
    assert not READS[part] & _EFFECTS[part]


def test_what_is_absent_stays_absent_and_what_is_there_stops_the_rehearsal_when_it_is_used() -> None:
    inner: Any = SimpleNamespace(nothing=None, other=SimpleNamespace(look=lambda: 1), act=lambda: 1, read=lambda: 2)
    part: Any = ReadOnly(inner, frozenset({"read"}))
    assert part.read() == 2
    assert part.nothing is None
    with pytest.raises(FirstEffect):
        part.act()
    with pytest.raises(FirstEffect):
        part.other.look()
