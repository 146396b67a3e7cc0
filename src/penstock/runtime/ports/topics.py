"""What a process may cache, by topic: each has a number that changes when a commit of any process concerns it.

Caches ask for the numbers before they read, and read again once a number differs. Rare changes note their topic in the
transaction that makes them. Runs note nothing: a step of a run must not empty the cache of keys.

| Topic | Noted by | How stale a cache may be |
| --- | --- | --- |
| `ANYTHING` | every commit | until the next turn of the event loop |
| all others | writes of the rows they name | until the next turn of the event loop |

A store may take longer if it says how long, and then refuses to vouch for a cache that it could not check in time.

Above it: everything that caches what a store has. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

__all__ = ["TOPIC_OF_KIND", "ChangeReader", "Mark", "Topic"]

Mark: TypeAlias = tuple[int, ...]
"""The numbers of some topics, in the order of the question."""


class Topic(StrEnum):
    """What a change is about."""

    ANYTHING = "anything"
    """Any commit at all, those of runs included."""
    KEYS = "keys"
    """API keys; not when they were last used."""
    TOKENS = "tokens"
    """Revoked access tokens and subjects."""
    SESSIONS = "sessions"
    """Sessions of the console, and when principals signed out everywhere."""
    POLICIES = "policies"
    """Stored policies, and what else policies are derived from."""
    QUOTAS = "quotas"
    """Quotas that were set for tenants and principals."""
    GRANTS = "grants"
    """What this server may do at other servers, as people signed in there."""
    DEFINITIONS = "definitions"
    """The newest definition of each workflow."""
    GRAPHS = "graphs"
    """Which graphs exist, and their schemas; not what is in them."""
    REGISTERED = "registered"
    """All other things that tenants register: tools, agents, models, schemas, webhooks, stored queries."""


TOPIC_OF_KIND: Final[Mapping[str, Topic]] = {
    "agent_app": Topic.POLICIES,
    "console_session": Topic.SESSIONS,
    "console_sign_out": Topic.SESSIONS,
    "policy": Topic.POLICIES,
    "quota": Topic.QUOTAS,
    "token_revocation": Topic.TOKENS,
    "upstream_grant": Topic.GRANTS,
}
"""The topic that a write of a resource concerns, by its kind. All other kinds concern `REGISTERED`."""


class ChangeReader(Protocol):
    """Reports whether something changed."""

    def changed(self, *topics: Topic) -> Mark:
        """Return a number for each topic. A number differs from an earlier one if any process changed the topic since.

        Never waits and costs next to nothing: callers ask at every request. A number may change without a reason, and
        does so while the store cannot be read. A store may look once per turn of the event loop: what other processes
        commit within a turn shows in the next.
        """
