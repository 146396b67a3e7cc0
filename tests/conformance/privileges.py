"""Work as somebody to whom file permissions apply, also when the tests run as root."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable

__all__ = ["as_ordinary_user"]

_CAPABILITY_VERSION_3 = 0x20080522


def as_ordinary_user(work: Callable[[], None]) -> None:
    """Run something in a thread without any privilege; the threads that it starts have none either.

    Root may write whatever the permissions say. That right is a capability of each thread, which a thread can lay down.
    """
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            if sys.platform == "linux" and os.geteuid() == 0:
                _lay_down_capabilities()
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def _lay_down_capabilities() -> None:
    # Two words each of: effective, permitted, inheritable; all of them zero.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")
