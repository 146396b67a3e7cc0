"""Which MCP server a command talks to, and what is sent there."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.mcp.servers import HttpServer, ServerChoice, StdioServer, mcp_address, resolve_server
from penstock.cli.terminal.values import UsageError

SERVER = "http://127.0.0.1:5151"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"PENSTOCK_API_KEY": "pen_secret", "XDG_CONFIG_HOME": str(tmp_path), "OTHER_KEY": "other"}


@pytest.mark.parametrize(
    ("server", "toolset", "address"),
    [
        (SERVER, None, f"{SERVER}/mcp"),
        (f"{SERVER}/", None, f"{SERVER}/mcp"),
        (f"{SERVER}/mcp", None, f"{SERVER}/mcp"),
        (f"{SERVER}/mcp?toolset=all", None, f"{SERVER}/mcp?toolset=all"),
        (f"{SERVER}?toolset=all&tenant=a", "workflows", f"{SERVER}/mcp?tenant=a&toolset=workflows"),
        (f"{SERVER}/team", "greet,nap", f"{SERVER}/team/mcp?toolset=greet,nap"),
        (SERVER, "a b&c", f"{SERVER}/mcp?toolset=a%20b%26c"),
        (SERVER, "graph:crm", f"{SERVER}/graphs/crm/mcp"),
        (f"{SERVER}/team/mcp?tenant=a", "graph:crm", f"{SERVER}/team/graphs/crm/mcp?tenant=a"),
    ],
)
def test_the_address_of_a_server(server: str, toolset: str | None, address: str) -> None:
    assert mcp_address(server, toolset) == address


@pytest.mark.parametrize("server", ["localhost:5151", "ftp://a", "http://", "http://me:secret@a", f"{SERVER}?k=pen_x"])
def test_an_address_that_cannot_be_used_is_refused(server: str) -> None:
    with pytest.raises(UsageError):
        mcp_address(server, None)


def test_our_key_goes_to_our_servers_only(variables: dict[str, str]) -> None:
    ours = resolve_server(ServerChoice(server=SERVER), variables)
    other = resolve_server(ServerChoice(url="https://other.example/mcp"), variables)
    assert ours == HttpServer(url=f"{SERVER}/mcp", headers={"Authorization": "Bearer pen_secret"})
    assert other == HttpServer(url="https://other.example/mcp", headers={})


def test_another_server_gets_the_headers_that_are_named(variables: dict[str, str]) -> None:
    where = ServerChoice(
        url="https://other.example/mcp", headers=("X-Team: shop",), key_variable="OTHER_KEY", toolset="a"
    )
    place = resolve_server(where, variables)
    assert isinstance(place, HttpServer)
    assert place.url == "https://other.example/mcp?toolset=a"
    assert place.headers == {"X-Team": "shop", "Authorization": "Bearer other"}
    assert "Bearer" not in repr(place)


def test_a_program_and_a_file_are_started(variables: dict[str, str]) -> None:
    program = resolve_server(ServerChoice(command=("npx", "-y", "server")), variables)
    assert isinstance(program, StdioServer)
    assert (program.command, program.arguments) == ("npx", ("-y", "server"))
    local = resolve_server(ServerChoice(database=Path("shop.db"), workflows=("flows",), toolset="all"), variables)
    assert isinstance(local, StdioServer)
    assert local.arguments[3:] == ("--db", "shop.db", "--workflows", "flows", "--toolset", "all")


@pytest.mark.parametrize(
    "where",
    [
        ServerChoice(server=SERVER, url="https://other.example"),
        ServerChoice(url="https://other.example", command=("cat",)),
        ServerChoice(server=SERVER, headers=("A: b",)),
        ServerChoice(url="https://other.example", headers=("nonsense",)),
        ServerChoice(url="https://other.example", headers=("A: b\r\nC: d",)),
        ServerChoice(url="https://other.example", key_variable="NOT_SET"),
        ServerChoice(url="other.example"),
        ServerChoice(command=("cat",), toolset="all"),
        ServerChoice(server=SERVER, workflows=("flows",)),
    ],
)
def test_what_contradicts_itself_is_refused(where: ServerChoice, variables: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        resolve_server(where, variables)
