"""Who sits here is what the operating system says, whatever the environment claims."""

import os
import pwd

import pytest

from penstock.app.gate import local_owner
from penstock.app.os_users import OsUser, os_user


def test_the_user_is_known_by_the_user_id_and_not_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "ceo")
    assert os_user() == OsUser(pwd.getpwuid(os.getuid()).pw_name, os.getuid())


def test_a_user_id_without_a_name_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert os_user() == OsUser("4000000000", 4_000_000_000)
    owner = local_owner()
    assert (owner.id, owner.scopes) == ("os:4000000000", frozenset({"*"}))
    assert owner.attributes == {"uid": 4_000_000_000}
