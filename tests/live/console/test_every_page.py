"""Every page of the console, with script and without, light and dark, wide and on a phone, with the mouse put away.

The table is in `pages`. Each address is opened and drawn in two ways; the first one of each page, and in a thorough run
(`tests.thorough`) every one, is opened without script, too, and drawn in two others. axe, which takes longest, is asked
about every address in one of these ways, by turns; a thorough run asks it about the first address of a page in two.
Pictures of the last run are in `build/console`, to look at; they are not kept in the repository.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.console.assets import assets
from penstock.console.pages import HANDLERS
from tests.conformance.mcp_suite.node import node_programs
from tests.live.console.everyday import names
from tests.live.console.governed import World
from tests.live.console.pages import FORMS, PAGES, REFUSED, SIGN_IN, TEXTS, Sent
from tests.live.console.visiting import AXE, cookie_of, get, only_tab
from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import LiveServer
from tests.thorough import IS_THOROUGH

PICTURES = Path(__file__).parents[3] / "build" / "console"
WIDE, PHONE = 1280, 375
COMPRESSED_BYTES_MAX = 60_000  # of a page with everything that it loads
TABS_MAX = 400  # more than any page has
NAMED = {"link", "button", "textbox", "searchbox", "combobox", "checkbox", "radio", "spinbutton", "DisclosureTriangle"}
LOOKS = ((WIDE, "light"), (PHONE, "dark"))
# What is wrong with the page that is shown, in words.
WRONG = """(() => {
  const all = selector => [...document.querySelectorAll(selector)], found = [];
  const said = (is_wrong, words) => { if (is_wrong) found.push(words); };
  said(document.scrollingElement.scrollWidth > innerWidth, "wider than the screen");
  said(!/^.+ · Penstock$/.test(document.title), `its title is ${document.title}`);
  said(all("h1").length !== 1 || !all("h1")[0].textContent.trim(), "it has not one heading");
  const headings = all("main h1, main h2, main h3, main h4").filter(item => item.checkVisibility());
  const levels = headings.map(item => +item.tagName[1]);
  headings.forEach((item, at) => said(at && levels[at] > levels[at - 1] + 1, `${item.textContent}: no level above`));
  said(all("main").length !== 1 || document.documentElement.lang !== "en", "it has not one main part in English");
  const is_in = document.body.dataset.who !== undefined;
  said(all("body > header").length !== 1, "it has no head");
  for (const part of ["body > header nav[aria-label]", "body > footer"])
    said(all(part).length !== (is_in ? 1 : 0), `it has ${all(part).length} ${part}`);
  said(all("nav:not([aria-label])").length, "a list of links without a name");
  said(all("[tabindex]").some(item => item.tabIndex > 0), "an order of its own for the tab key");
  const ids = all("[id]").map(item => item.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) < at))) found.push(`two parts are ${id}`);
  for (const place of all("a[href^='#']").map(item => item.getAttribute("href").slice(1)))
    said(!document.getElementById(decodeURIComponent(place)), `#${place} leads nowhere`);
  said(document.title === "owned" || document.title === "1" || document.images.length, "hostile markup is alive");
  said(all("[href]").some(item => !/^[/#?]|^$/.test(item.getAttribute("href"))), "a link leads elsewhere");
  said(all("style, [style]").length, "a style in the page");
  said(document.body.textContent.includes("\\u202e"), "a text turns others around");
  return found;
})()"""
# Notes which of the controls get the focus, and whether one can see it.
FOLLOW = """(() => {
  const shown = item => item.checkVisibility({visibilityProperty: true}) && !item.closest("dialog:not([open])");
  const kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const extra = "[tabindex='-1'][aria-hidden=true]"; // what Enter in a field presses, for nobody to reach
  const controls = [...document.querySelectorAll(kinds)]
    .filter(item => shown(item) && !item.disabled && !item.matches(extra));
  const group = item => item.type === "radio" ? controls.find(other => other.name === item.name) : item;
  window.left = new Set(controls.map(group));
  window.unseen = [];
  document.addEventListener("focusin", ({target}) => {
    left.delete(group(target));
    const style = getComputedStyle(target), shape = target.querySelector(".shape, rect");
    const thick = shape ? parseFloat(getComputedStyle(shape).strokeWidth) >= 3 : false;
    const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    const box = target.getBoundingClientRect();
    const away = box.bottom < 0 || box.top > innerHeight || box.right < 0 || box.left > innerWidth;
    if (!(ring || thick) || away) unseen.push(target.outerHTML.slice(0, 100));
  });
  return controls.length;
})()"""
LINKS = """[...new Set([...document.querySelectorAll('a[href]')]
  .map(item => new URL(item.getAttribute('href'), location).href.split('#')[0]))]"""
ROUTES = [re.compile("/console" + re.sub(r"{\w+}", "[^/]+", path)) for path in (*HANDLERS, SIGN_IN)]


@pytest.fixture(scope="module")
def made(server: LiveServer, world: World) -> dict[str, str]:
    return names(server, world)


@pytest.fixture(scope="module")
def followed() -> set[str]:
    """Links that were followed already."""
    return set()


def sections() -> list[str]:
    return sorted({route.split("/")[1] if route else "home" for route in PAGES})


def of_section(section: str) -> list[tuple[str, str]]:
    routes = {route: route.split("/")[1] if route else "home" for route in PAGES}
    return [(route, address) for route, found in routes.items() if found == section for address in PAGES[route]]


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_table() -> None:
    assert {*PAGES, *TEXTS} == {*HANDLERS, SIGN_IN}
    for route, address in [*TEXTS.items(), *((route, item) for route, items in PAGES.items() for item in items)]:
        pattern = re.sub(r"{\w+}", "[^/?]+", route)
        assert re.fullmatch(pattern + r"(\?.*)?", re.sub(r"{\w+}", "x", address.replace("{{", "").replace("}}", "")))


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("section", sections())
def test_a_page_works_for_everybody_however_it_is_drawn(
    server: LiveServer, browser: Browser, made: dict[str, str], followed: set[str], section: str
) -> None:
    problems: list[str] = []
    for number, (route, address) in enumerate(of_section(section)):
        page, name = address.format(**made), f"{section}-{number}"
        is_first = address == PAGES[route][0]
        turn = (sections().index(section) + number) % len(LOOKS)
        looks = LOOKS if is_first and IS_THOROUGH else LOOKS[turn:][:1]
        found = _visited(browser, f"{server.url}/console{page}", REFUSED.get(address, HTTPStatus.OK))
        is_taken = is_first or IS_THOROUGH
        found += _looked_at(browser, name, looks, is_taken=is_taken)
        if is_first:
            found += _with_the_tab_key(browser)
        found += _links(server, browser, followed)
        if is_taken:
            found += _without_script(browser, f"{server.url}/console{page}", name)
        problems += [f"{page[:80]}: {item}" for item in found]
    assert problems == [], "\n".join(problems)


def test_pages_that_only_a_form_leads_to_work_for_everybody_too(server: LiveServer, browser: Browser) -> None:
    problems: list[str] = []
    for name, form in FORMS.items():
        browser.open(f"{server.url}/console{form.page}")
        _send(browser, form)
        found = _looked_at(browser, f"form-{name}", LOOKS[:1])
        problems += [f"{name}: {item}" for item in found]
    assert problems == [], "\n".join(problems)


def _send(browser: Browser, form: Sent) -> None:
    browser.evaluate("document.querySelectorAll('main form').forEach(form => { form.noValidate = true })")
    for selector, text in form.written.items():
        browser.evaluate(f"document.querySelector({json.dumps(selector)}).value = ''")
        browser.type_into(selector, text)
    browser.press(form.button)


def _visited(browser: Browser, url: str, status: int) -> list[str]:
    """Open a page, and say what the browser complains about and which controls have no name."""
    _drawn(browser, WIDE, "light")
    browser.command("Runtime.enable")
    browser.open(url)
    found = [text for text in _heard(browser) if str(status) not in text or status == HTTPStatus.OK]
    answered = browser.evaluate("performance.getEntriesByType('navigation')[0].responseStatus")
    if answered != status:
        found.append(f"answered with {answered}")
    tree = browser.command("Accessibility.getFullAXTree")["nodes"]
    return found + [f"no name: {item['role']['value']}" for item in tree if _is_nameless(item)]


def _looked_at(browser: Browser, name: str, looks: tuple[tuple[int, str], ...], *, is_taken: bool = True) -> list[str]:
    """Take pictures, wide and light, then narrow and dark, and say what is wrong in each; axe is asked in `looks`."""
    found: list[str] = []
    browser.evaluate((node_programs().modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    for width, scheme in LOOKS:
        _drawn(browser, width, scheme)
        wrong = [*browser.evaluate(WRONG), *(_shuts_out(browser) if (width, scheme) in looks else ())]
        found += [f"at {width}, {scheme}: {item}" for item in wrong]
        if is_taken:
            _take(browser, f"{name}-{width}-{scheme}")
    return found


def _without_script(browser: Browser, url: str, name: str) -> list[str]:
    """Open a page without script and draw it narrow and light, then wide and dark."""
    found: list[str] = []
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        _drawn(browser, PHONE, "light")
        browser.open(url)
        for width, scheme in ((PHONE, "light"), (WIDE, "dark")):
            _drawn(browser, width, scheme)
            found += [f"without script, at {width}, {scheme}: {item}" for item in browser.evaluate(WRONG)]
            _take(browser, f"{name}-{width}-{scheme}-no-script")
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)
    return found


def _with_the_tab_key(browser: Browser) -> list[str]:
    """Reach every control with the tab key, and see where the focus is."""
    _drawn(browser, WIDE, "light")
    if browser.evaluate(FOLLOW) > TABS_MAX:
        return ["more controls than anybody would go through"]
    browser.evaluate("getSelection().removeAllRanges(); document.activeElement.blur(); scrollTo(0, 0)")
    for _ in range(2 * TABS_MAX):
        if browser.evaluate("left.size") == 0:
            break
        only_tab(browser)
    unreached = browser.evaluate("[...left].map(item => item.outerHTML.slice(0, 100))")
    unseen = browser.evaluate("unseen")
    return [f"not reached: {item}" for item in unreached] + [f"focus not seen: {item}" for item in unseen]


def _links(server: LiveServer, browser: Browser, followed: set[str]) -> list[str]:
    """Follow one link of each kind on the page that is shown."""
    found: list[str] = []
    kinds: set[str] = set()
    here = browser.evaluate("location.href")
    for link in browser.evaluate(LINKS):
        place = urlsplit(link)
        route = next((item.pattern for item in ROUTES if item.fullmatch(place.path)), None)
        if route is None:
            found.append(f"{link} is no page")
        elif route not in kinds and link not in followed and not link.startswith(here):
            kinds.add(route)
            followed.add(link)
            answer = get(server, place.path + (f"?{place.query}" if place.query else ""), _cookie(browser))
            if answer.status != 200:
                found.append(f"{link} answers with {answer.status}")
    return found


def _cookie(browser: Browser) -> str:
    kept = browser.command("Network.getCookies")["cookies"]
    return "; ".join(f"{item['name']}={item['value']}" for item in kept)


def _drawn(browser: Browser, width: int, scheme: str) -> None:
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)


def _heard(browser: Browser) -> list[str]:
    """What the browser complained about: violations of the content security policy, errors of scripts, its log."""
    found: list[str] = []
    for item in browser.events:
        said = item["params"]
        if item["method"] == "Log.entryAdded":
            found.append(said["entry"]["text"])
        elif item["method"] == "Runtime.exceptionThrown" or said.get("type") in ("error", "warning"):
            found.append(json.dumps(said)[:300])
    return found


def _is_nameless(item: dict[str, Any]) -> bool:
    is_control = not item["ignored"] and item.get("role", {}).get("value") in NAMED
    return is_control and not item.get("name", {}).get("value", "").strip()


def _shuts_out(browser: Browser) -> list[str]:
    """Whom the page shuts out, and with what."""
    ran = browser.command("Runtime.evaluate", expression=AXE, awaitPromise=True, returnByValue=True)
    found: list[str] = json.loads(ran["result"]["value"])
    return found


def _take(browser: Browser, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    size = browser.command("Page.getLayoutMetrics")["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 2_600), "scale": 1}
    options = {"format": "png", "captureBeyondViewport": True, "optimizeForSpeed": True}
    taken = browser.command("Page.captureScreenshot", clip=clip, **options)["data"]
    (PICTURES / f"{name}.png").write_bytes(base64.b64decode(taken))


# --- by plain HTTP ----------------------------------------------------------------------------------------------------


def test_pages_are_small_whatever_is_in_them(server: LiveServer, made: dict[str, str]) -> None:
    cookie = cookie_of(server, server.key)
    loaded = sum(len(asset.compressed) for asset in assets().values())
    for address in (item for addresses in PAGES.values() for item in addresses):
        answer = get(server, f"/console{address.format(**made)}", cookie)
        assert answer.status == REFUSED.get(address, HTTPStatus.OK), address
        assert loaded + len(gzip.compress(answer.body)) <= COMPRESSED_BYTES_MAX, address
        assert len(answer.body) < 200_000, address
    for address in TEXTS.values():
        answer = get(server, f"/console{address.format(**made)}", cookie)
        assert (answer.status, "sandbox" in answer.headers["content-security-policy"]) == (200, True), address
