"""Who sits at this machine: the user that the operating system runs this process for.

The name comes from the user database by the real user id; environment variables such as `USER` and `LOGNAME` say what
anybody wrote into them and are not asked. A user id that has no name (in a container) stands for itself.

Above it: `gateway`. Below it: the operating system.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

try:
    from pwd import getpwuid
except ImportError:  # Windows has no such database
    getpwuid = None  # type: ignore[assignment]  # looked at before it is used

__all__ = ["OsUser", "os_user"]

_PREFIX = "os:"
_HAS_USER_IDS = hasattr(os, "getuid")


@dataclass(frozen=True, slots=True)
class OsUser:
    """A user of the operating system; where there are no user ids, `uid` is None."""

    name: str
    uid: int | None

    @property
    def principal_id(self) -> str:
        """Their id as a principal."""
        return f"{_PREFIX}{self.name}"


def os_user() -> OsUser:
    """The user whose process this is."""
    if not _HAS_USER_IDS:
        return OsUser(os.getlogin(), None)
    uid = os.getuid()
    try:
        return OsUser(getpwuid(uid).pw_name, uid)
    except KeyError:
        return OsUser(str(uid), uid)
