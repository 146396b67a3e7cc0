"""The insides of uvicorn are those that `http_protocol` was written for."""

import hashlib
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from penstock.rest.http_protocol import BoundedHttpProtocol, ResponseCycle

ROOT = Path(__file__).parents[3]
# What is used or overridden, with a digest of its source. If one differs: read what uvicorn changed, adapt
# `http_protocol`, run `tests/live/rest`, and only then put the new digest here.
USED: dict[str, str] = {
    "HttpToolsProtocol.__init__": "4f08999410347141",
    "HttpToolsProtocol._start_asgi_task": "9c08c2571ae9b038",
    "HttpToolsProtocol.connection_lost": "c91a4c9bf2e29c55",
    "HttpToolsProtocol.connection_made": "6efb565ff3d36b91",
    "HttpToolsProtocol.data_received": "010a7ae59a5d3b1a",
    "HttpToolsProtocol.on_body": "dba9c32aeba35b6a",
    "HttpToolsProtocol.on_header": "65d62c044f61fdbd",
    "HttpToolsProtocol.on_headers_complete": "1ea8589acfad92d8",
    "HttpToolsProtocol.on_message_begin": "96d377fdc7c2baef",
    "HttpToolsProtocol.on_message_complete": "1fbad42dc31fc01f",
    "HttpToolsProtocol.on_response_complete": "64e254f28e389e76",
    "HttpToolsProtocol.on_url": "37be44e962b04ca8",
    "HttpToolsProtocol.send_400_response": "ae5a4a3782b646fd",
    "HttpToolsProtocol.shutdown": "d7351fa33f00d430",
    "HttpToolsProtocol.timeout_keep_alive_handler": "8b53bf5f2e202970",
    "RequestResponseCycle.receive": "8124ae006be71184",
    "RequestResponseCycle.run_asgi": "0f33f2449a444bc2",
    "RequestResponseCycle.send": "abdd8601b326a8da",
}
CLASSES: dict[str, type] = {"HttpToolsProtocol": HttpToolsProtocol, "RequestResponseCycle": RequestResponseCycle}


def digest(place: str) -> str:
    name, _, method = place.partition(".")
    return hashlib.sha256(inspect.getsource(getattr(CLASSES[name], method)).encode()).hexdigest()[:16]


@pytest.mark.parametrize("place", USED)
def test_what_is_used_of_uvicorn_is_as_it_was(place: str) -> None:
    assert digest(place) == USED[place], f"uvicorn changed {place}: see the comment in this file"


@pytest.mark.parametrize(
    ("own", "base"), [(BoundedHttpProtocol, HttpToolsProtocol), (ResponseCycle, RequestResponseCycle)]
)
def test_every_overridden_method_is_in_the_table(own: type, base: type) -> None:
    overridden = {name for name in vars(own) if name in vars(base) and callable(vars(base)[name])} - {"__doc__"}
    assert {f"{base.__name__}.{name}" for name in overridden} <= set(USED)


def test_the_version_of_uvicorn_is_bounded_to_what_was_read() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    major, minor = version("uvicorn").split(".")[:2]
    expected = f"uvicorn>={major}.{minor},<{major}.{int(minor) + 1}"
    assert [item for item in project["project"]["dependencies"] if item.startswith("uvicorn")] == [expected]
