"""The user of the operating system that runs this process.

The name comes from the user database, by the real user id. Environment variables such as `USER` and `LOGNAME` are not
read, because anybody can set them. A user id without a name (in a container) is used itself.

Above it: `gate`. Below it: the operating system.
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
    """A user of the operating system. `uid` is `None` on systems without user ids."""

    name: str
    uid: int | None

    @property
    def principal_id(self) -> str:
        """The user's id as a principal."""
        return f"{_PREFIX}{self.name}"


def os_user() -> OsUser:
    """The user that owns this process."""
    if not _HAS_USER_IDS:
        return OsUser(os.getlogin(), None)
    uid = os.getuid()
    try:
        return OsUser(getpwuid(uid).pw_name, uid)
    except KeyError:
        return OsUser(str(uid), uid)
