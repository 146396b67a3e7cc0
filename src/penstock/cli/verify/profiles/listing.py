"""All profiles, in the order in which they are run: `abuse` comes last, because it exhausts limits."""

from __future__ import annotations

from penstock.cli.verify.checks import Profile
from penstock.cli.verify.profiles.abuse import bodies, fuzzing, rates, requests
from penstock.cli.verify.profiles.abuse.table import ABUSE
from penstock.cli.verify.profiles.audit import contents, events, trail
from penstock.cli.verify.profiles.audit.table import AUDIT
from penstock.cli.verify.profiles.authz import apps, credentials, data, policies, scopes
from penstock.cli.verify.profiles.authz.table import AUTHZ
from penstock.cli.verify.profiles.core import CORE
from penstock.cli.verify.profiles.state_witness import STATE_WITNESS
from penstock.cli.verify.profiles.writes import approvals, auto_execute, drafts, idempotency, preflights, stored
from penstock.cli.verify.profiles.writes.table import WRITES

__all__ = ["PROFILES"]

# Importing a module puts its checks into the table of its profile.
_MODULES = (
    *(scopes, credentials, apps, data, policies),
    *(drafts, auto_execute, preflights, idempotency, approvals, stored),
    *(events, contents, trail),
    *(bodies, requests, fuzzing, rates),
)
PROFILES: dict[str, Profile] = {profile.name: profile for profile in (CORE, AUTHZ, WRITES, STATE_WITNESS, AUDIT, ABUSE)}
