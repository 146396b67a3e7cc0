"""Signing in to the console: at an OpenID provider, with a key, and out everywhere; and what does not get in."""

from __future__ import annotations

import html
import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest

from penstock.base import limits
from penstock.runtime.system import SystemClock
from tests.fixtures.oidc_provider import CLIENT, SECRET, Provider, providing
from tests.issuers import signing_key
from tests.live.rest.servers import Answer, LiveServer
from tests.waiting import SECONDS_MAX, wait_until

ASKS = {
    "penstock": "v1",
    "name": "asks",
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Well?",
            "answer": {
                "type": "object",
                "required": ["note"],
                "properties": {
                    "note": {"type": "string"},
                    "token": {"type": "string", "x-secret": True},
                },
            },
        },
        {"id": "done", "type": "end", "output": "${ .ask.note }"},
    ],
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as running:
        yield running


@pytest.fixture(scope="module")
def server(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    issuers = {
        "oidc": {
            "issuer": provider.url,
            "console": {
                "client_id": CLIENT,
                "client_secret": {"env": "CONSOLE_SECRET"},
                "label": "the company",
                "back_channel_logout": True,
            },
        }
    }
    settings = {
        "PENSTOCK_SERVER_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "PENSTOCK_AUTH_OAUTH_ISSUERS": json.dumps(issuers),
        "CONSOLE_SECRET": SECRET,
    }
    running = LiveServer(tmp_path_factory.mktemp("server"), settings=settings, port=port)
    running.start()
    try:
        running.call("POST", "workflows", {"document": ASKS})
        yield running
    finally:
        running.kill()


@pytest.fixture(autouse=True)
def _plain_provider(provider: Provider) -> None:
    provider.reset()


class Browser:
    """Keeps cookies by path as a browser does, and follows redirects only when told to."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.jar: dict[str, tuple[str, str]] = {}
        self.seconds: dict[str, int] = {}

    def _sent(self, path: str) -> str:
        return "; ".join(f"{name}={value}" for name, (value, under) in self.jar.items() if path.startswith(under))

    def request(self, method: str, path: str, fields: dict[str, str] | None = None, **headers: str) -> Answer:
        sent = {"Cookie": self._sent(path), **headers}
        body = None if fields is None else urlencode(fields).encode()
        if fields is not None:
            sent |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.server.url}
        place = urlsplit(self.server.url)
        connection = HTTPConnection(str(place.hostname), place.port, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, body=body, headers=sent)
            got = connection.getresponse()
            for value in got.headers.get_all("set-cookie") or []:
                self._keep(value)
            found = {name.lower(): value for name, value in got.getheaders()}
            return Answer(status=got.status, headers=found, body=got.read())
        finally:
            connection.close()

    def _keep(self, cookie: str) -> None:
        name, _, rest = cookie.partition("=")
        value, _, attributes = rest.partition(";")
        assert "HttpOnly" in attributes
        if "Max-Age=0" in attributes:
            self.jar.pop(name, None)
            return
        under, seconds = re.search(r"Path=([^;]+)", attributes), re.search(r"Max-Age=(\d+)", attributes)
        assert under is not None
        assert seconds is not None
        self.seconds[name] = int(seconds[1])
        self.jar[name] = (value, under[1])

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, None, **headers)

    def post(self, path: str, **fields: str) -> Answer:
        return self.request("POST", path, fields)

    def at_issuer(self, to: str = "/console/runs") -> str:
        """Go to the issuer and consent; where it sends the browser back to."""
        left = self.get(f"/console/sign-in/with/oidc?to={to}")
        assert left.status == 303
        place = urlsplit(left.headers["location"])
        connection = HTTPConnection(str(place.hostname), place.port, timeout=SECONDS_MAX)
        try:
            connection.request("GET", f"{place.path}?{place.query}")
            location = connection.getresponse().headers["location"]
        finally:
            connection.close()
        back = urlsplit(location)
        assert location.startswith(urljoin(self.server.url, "/console/sign-in/callback?"))
        return f"{back.path}?{back.query}"

    def sign_in(self) -> None:
        done = self.get(self.at_issuer())
        assert (done.status, done.headers["location"]) == (303, "/console/runs"), done.body
        assert set(self.jar) == {"penstock_console"}

    def is_in(self) -> bool:
        return self.get("/console/runs").status == 200

    def token(self, path: str = "/console") -> str:
        page = self.get(path).body.decode()
        return page.partition('name="form_token" value="')[2].partition('"')[0]


def problem(answer: Answer) -> str:
    found = re.search(r'role="alert">(.*?)</p>', answer.body.decode(), re.DOTALL)
    assert found is not None, answer.body
    return html.unescape(found[1])


def audited(server: LiveServer, **query: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = server.call("GET", f"audit?{urlencode(query)}")["items"]
    return found


def sessions(server: LiveServer) -> list[dict[str, object]]:
    found: list[dict[str, object]] = server.call("GET", "console-sessions?everybody=true")["items"]
    return found


# --- at a provider ----------------------------------------------------------------------------------------------------


def test_somebody_signs_in_at_the_provider_with_the_rights_that_the_token_has(
    server: LiveServer, provider: Provider
) -> None:
    browser = Browser(server)
    page = browser.get("/console/sign-in").body.decode()
    assert "Sign in with the company" in page
    provider.claims = {"sub": "grace", "preferred_username": "Grace", "groups": ["support"]}
    provider.id_claims = {"sub": "grace"}
    browser.sign_in()
    shown = browser.get("/console").body.decode()
    assert "Grace" in shown
    assert "token:oidc:grace in default" in shown
    assert browser.get("/console/approvals").status == 200
    asked = provider.asked[-1]
    assert asked["resource"] == f"{server.url}/mcp"
    assert asked["redirect_uri"] == f"{server.url}/console/sign-in/callback"
    provider.claims["scope"] = "execution:read"
    fewer = Browser(server)
    fewer.sign_in()
    assert (fewer.is_in(), fewer.get("/console/workflows").status) == (True, 403)


def test_a_session_ends_with_its_token_and_with_the_subject(server: LiveServer, provider: Provider) -> None:
    browser = Browser(server)
    browser.sign_in()
    assert browser.seconds["penstock_console"] <= 300 + limits.TOKEN_LEEWAY_SECONDS  # the token, and not half a day
    assert browser.is_in()
    server.call("POST", "tokens/revocations", {"issuer": "oidc", "subject": "ada"})
    assert not browser.is_in()
    again = browser.get(browser.at_issuer())
    assert (again.status, "revoked" in problem(again)) == (403, True)
    [revocation] = server.call("GET", "tokens/revocations")["items"]
    server.call("DELETE", f"tokens/revocations/{revocation['id']}")


def test_what_comes_back_counts_once_and_only_in_the_browser_that_left(server: LiveServer, provider: Provider) -> None:
    browser, thief = Browser(server), Browser(server)
    back = browser.at_issuer()
    refused = thief.get(back)
    assert (refused.status, "did not start the sign-in" in problem(refused)) == (403, True)
    own = thief.at_issuer()
    mixed = back.replace(parse_qs(urlsplit(back).query)["state"][0], parse_qs(urlsplit(own).query)["state"][0])
    assert "gave no tokens" in problem(thief.get(mixed))  # the verifier of another browser
    thief.at_issuer()
    assert "`state`" in problem(thief.get(back))
    assert not thief.is_in()
    assert browser.get(back.replace("code-", "code-0")).status == 403
    assert "did not start the sign-in" in problem(browser.get(back))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id_claims": {"nonce": "of another"}}, "`nonce`"),
        ({"id_claims": {"aud": "another-client"}}, "audience"),
        ({"id_claims": {"aud": [CLIENT, "another"]}}, "`azp`"),
        ({"id_claims": {"exp": 1}}, "expired"),
        ({"id_claims": {"sub": "grace"}}, "same person"),
        ({"id_claims": {"iss": "https://evil.example"}}, "not signed by the issuer"),
        ({"forged": True}, "not signed by the issuer"),
        ({"claims": {"aud": "https://other.example"}}, "for another server"),
        ({"said_issuer": "https://evil.example"}, "`iss`"),
        ({"refuses": "access_denied"}, "access_denied"),
    ],
)
def test_a_provider_that_says_something_else_lets_nobody_in(
    server: LiveServer, provider: Provider, wrong: dict[str, object], said: str
) -> None:
    browser = Browser(server)
    for name, value in wrong.items():
        setattr(provider, name, value)
    refused = browser.get(browser.at_issuer())
    assert refused.status in (403, 422)
    assert said in problem(refused)
    assert browser.jar == {}


def test_a_token_may_have_more_groups_than_a_cookie_could_keep(server: LiveServer, provider: Provider) -> None:
    provider.claims = {"groups": ["g" * 90 + str(number) for number in range(60)]}
    browser = Browser(server)
    browser.sign_in()
    assert browser.is_in()
    assert len(browser.jar["penstock_console"][0]) < 400


def test_a_session_is_refreshed_with_what_the_provider_says_by_then_until_it_refuses(
    server: LiveServer, provider: Provider
) -> None:
    provider.gives_refresh_tokens = True
    soon = SystemClock().now_ms() // 1000 - limits.TOKEN_LEEWAY_SECONDS + 25  # about to be accepted no more
    provider.claims = {"sub": "lin", "exp": soon}
    provider.id_claims = {"sub": "lin"}
    browser = Browser(server)
    browser.sign_in()
    assert browser.seconds["penstock_console"] > 3_600  # the session is not as short as its token
    assert provider.refresh_tokens
    assert browser.get("/console/workflows").status == 200
    provider.claims = {"sub": "lin", "exp": soon, "scope": "execution:read"}
    assert browser.get("/console/workflows").status == 403
    assert len(provider.refresh_tokens) == 1
    [listed] = [item for item in sessions(server) if item["principal"] == "token:oidc:lin"]
    assert (listed["signed_in_with"], listed["issuer"]) == ("issuer", "oidc")
    provider.refresh_tokens.clear()
    assert not browser.is_in()
    [ended] = [item for item in audited(server, operation="console_session.close") if item["subject"] == listed["id"]]
    assert "invalid_grant" in str(ended["details"])


def test_who_signs_out_here_is_shown_how_to_sign_out_at_the_provider(server: LiveServer, provider: Provider) -> None:
    browser = Browser(server)
    browser.sign_in()
    copied = dict(browser.jar)
    out = browser.post("/console/sign-out", form_token=browser.token())
    assert (out.status, browser.jar) == (200, {})
    assert f"{provider.url}/logout?id_token_hint=" in html.unescape(out.body.decode())
    browser.jar = copied
    assert not browser.is_in()


def test_the_provider_signs_somebody_out_here_and_a_copy_of_its_token_does_not(
    server: LiveServer, provider: Provider
) -> None:
    def send(token: str) -> int:
        return Browser(server).post("/console/back-channel-logout/oidc", logout_token=token).status

    provider.id_claims = {"sid": "s-1"}
    browser = Browser(server)
    browser.sign_in()
    good = provider.issuer.logout_token(aud=CLIENT, sid="s-1")
    other = provider.issuer.logout_token(aud=CLIENT, sid="s-1", key=signing_key("RS256", "somebody else"))
    assert (send(other), browser.is_in()) == (400, True)
    assert (send(good), browser.is_in()) == (200, False)
    browser.sign_in()
    assert (send(good), browser.is_in()) == (400, True)
    [noted] = audited(server, operation="console_session.note_logout")
    assert (noted["principal"], noted["outcome"]) == ("system:console", "allowed")


def test_the_refresh_token_is_revoked_at_the_provider_when_somebody_signs_out(
    server: LiveServer, provider: Provider
) -> None:
    provider.gives_refresh_tokens = True
    for revokes in (True, False):
        provider.revokes = revokes
        browser = Browser(server)
        browser.sign_in()
        [token] = provider.refresh_tokens
        assert browser.post("/console/sign-out", form_token=browser.token()).status == 200
        assert not browser.is_in()
        if revokes:
            wait_until(lambda: provider.revoked)
            assert (provider.revoked, provider.refresh_tokens) == ([token], set())


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_signing_in_begins_a_new_session_whatever_the_browser_sent(server: LiveServer) -> None:
    browser, attacker = Browser(server), Browser(server)
    attacker.post("/console/sign-in", key=server.key)
    browser.jar = dict(attacker.jar)
    fixed = browser.jar["penstock_console"]
    browser.post("/console/sign-in", key=server.key)
    assert browser.jar["penstock_console"] != fixed
    assert browser.token() != attacker.token()


def test_signing_out_everywhere_ends_all_sessions_of_one_principal_and_is_audited(server: LiveServer) -> None:
    made = server.call("POST", "keys", {"name": "clerk", "kind": "person", "scopes": ["execution:read"]})
    here, there, other = Browser(server), Browser(server), Browser(server)
    for browser in (here, there):
        browser.post("/console/sign-in", key=made["secret"])
    other.post("/console/sign-in", key=server.key)
    assert here.is_in()
    assert there.is_in()
    out = here.post("/console/sign-out", everywhere="yes", form_token=here.token())
    assert (out.status, here.jar) == (303, {})
    assert (there.is_in(), other.is_in()) == (False, True)
    principal = f"key:{made['key']['id']}"
    [entry] = audited(server, operation="key.sign_out")
    assert (entry["principal"], entry["subject"], entry["surface"]) == (principal, principal, "console")
    here.post("/console/sign-in", key=made["secret"])
    assert here.is_in()  # the key is as good as before
    refused = server.request("POST", "keys/sign-out", {"principal": "key:owner"}, key=made["secret"])
    assert (refused.status, refused.json()["code"]) == (403, "SCOPE_REQUIRED")
    server.call("POST", "keys/sign-out", {"principal": principal})
    assert not here.is_in()


def test_a_stream_that_is_open_ends_when_its_session_does(server: LiveServer) -> None:
    made = server.call("POST", "keys", {"name": "viewer", "kind": "person", "scopes": ["execution:read"]})
    watching = Browser(server)
    watching.post("/console/sign-in", key=made["secret"])
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_MAX)) as connection:
        connection.request(
            "GET", "/console/events", headers={"Cookie": f"penstock_console={watching.jar['penstock_console'][0]}"}
        )
        stream = connection.getresponse()
        server.call("POST", "keys/sign-out", {"principal": f"key:{made['key']['id']}"})
        server.call("POST", "workflows/asks/executions", {"input": {}})
        told = stream.read().decode()  # to its end
    assert told.endswith('event: closed\ndata: {"code":"SIGNED_OUT","message":"you are signed out"}\n\n')


def test_what_was_written_survives_the_end_of_the_session_and_is_sent_after_signing_in(server: LiveServer) -> None:
    run_id = server.call("POST", "workflows/asks/executions", {"input": {}})["execution_id"]
    browser = Browser(server)
    browser.post("/console/sign-in", key=server.key)
    path = f"/console/runs/{run_id}"
    question = server.call("GET", f"executions/{run_id}")["waiting_for"]["questions"][0]["interrupt_id"]
    written = "a long text\r\nwith <b> & \u202e 👩\u200d🚀"
    sent = {
        "action": "answer",
        "interrupt_id": question,
        "field.note": written,
        "field.token": "s3cret",
        "secret_field": "field.token",
        "form_token": browser.token(path),
    }
    browser.jar.clear()  # the session has ended
    lost = browser.request("POST", path, sent)
    assert lost.status == 403
    assert "sign in in another tab" in problem(lost)

    def kept(answer: Answer) -> dict[str, str]:
        page = answer.body.decode()
        assert 'type="password" autocomplete="off" name="field.token"' in page
        fields = dict(re.findall(r'<input[^>]* name="([^"]+)" value="([^"]*)">', page))
        fields |= dict(re.findall(r'<textarea[^>]* name="([^"]+)" rows="3">\n(.*?)</textarea>', page, re.DOTALL))
        return {name: html.unescape(value) for name, value in fields.items()}

    assert kept(lost) == {**sent, "form_token": ""}
    browser.post("/console/sign-in", key=server.key)
    again = browser.request("POST", path, kept(lost))
    assert (again.status, "signed in again" in problem(again)) == (403, True)
    assert server.call("GET", f"executions/{run_id}")["status"] == "waiting_input"
    done = browser.request("POST", path, kept(again))
    assert (done.status, done.headers["location"].partition("?")[0]) == (303, path)
    ended = server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    # A browser writes lines as mail does; what is meant are lines.
    assert (ended["status"], ended["output"]) == ("completed", written.replace("\r\n", "\n"))


def test_a_form_of_another_site_is_not_shown_again_when_signed_out(server: LiveServer) -> None:
    refused = Browser(server).request("POST", "/console/runs/r_1", {"note": "x"}, **{"Sec-Fetch-Site": "cross-site"})
    assert refused.status == 403
    assert b"Send it again" not in refused.body


def test_who_fails_too_often_waits_and_others_with_other_keys_do_not_lose_theirs(server: LiveServer) -> None:
    made = server.call("POST", "keys", {"name": "target", "kind": "person", "scopes": ["execution:read"]})
    prefix = "_".join(made["secret"].split("_", 2)[:2])
    statuses: list[int] = []
    # A machine that is slow earns a few more attempts meanwhile.
    while statuses[-1:] != [429] and len(statuses) < 2 * limits.CONSOLE_FAILED_SIGN_INS_PER_KEY_PER_MINUTE:
        statuses.append(Browser(server).post("/console/sign-in", key=f"{prefix}_{'x' * 43}").status)
    assert set(statuses[:-1]) == {403}
    assert statuses[-1] == 429
    late = Browser(server).post("/console/sign-in", key=made["secret"])
    assert (late.status, "failed attempts" in problem(late)) == (429, True)
    another = Browser(server)
    another.post("/console/sign-in", key=server.key)
    assert another.is_in()
    read = server.request("GET", "executions", key=made["secret"])
    assert read.status == 200  # the limit is of the form, and programs go on
