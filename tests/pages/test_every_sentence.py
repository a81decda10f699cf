"""Every sentence of pages and problems goes through the catalog: in a language that marks what it translates, no word
stands outside the marks but data, code and names."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from gettext import NullTranslations
from typing import Any

import httpx
import pytest
from factories import changed
from owing import owe, register
from selectolax.lexbor import LexborHTMLParser, LexborNode

from webapp import language
from webapp.actions import inspectors
from webapp.domain.access import Viewer
from webapp.domain.errors import FILE_LOST
from webapp.domain.exports import Export, FormatWarning, Phase, Status
from webapp.language import CHINESE, Language
from webapp.pages.wording import WARNINGS
from webapp.resources import Resources

ExportMaker = Callable[..., Awaitable[Export]]

OPEN, CLOSE = "⟦", "⟧"
WORD = re.compile(r"[A-Za-z]{2,}")
SPOKEN = ("aria-label", "title", "placeholder", "alt", "data-confirm", "data-confirm-text", "data-label", "data-title")
SILENT = (
    "head > :not(title), script, code, pre, bdi, textarea, option[value]:empty, .cells, .reference [lang=en], "
    "select[name$='timezone'], select[name=kind], tr:has(.audit-details)"
)
DATA = re.compile(
    r"Exportdesk|English|UTC|SHA|CSV|XLSX|JSON Lines|JSON|JWE|Parquet|gzip|Zstandard|SSE|WebSocket|POST|URL|Id\b"
    r"|webhook-id|Excel|PyPI|Python|Node|Go|Shell|pip install \w+|npm install \w+|go get \S+|NaN|API|HTTP|TLS|DNS"
    r"|exp_\w+|evt_\w+|end_\w+|dlv_\w+|usr_\w+|tok_\w+|sor_\w+|grp_\w+|wrk_\w+|https?://\S+|\S+\.example\S*|\S+\.csv"
    r"|export\.\w+|alert\.\w+|(?:user|admin|other)\b|[Tt]hings|Slow things|For admins|Broken|secret|slow|broken"
    r"|Name contains|At most|Rows|Takes as long as it is told to|Everything in the shop|Only for admins"
    r"|…[\w-]{6}|[a-z]+\.[a-z_]+\b|tests\b"
    r"|Its table is gone|thing\b|kB|MB|GB|TB|KiB|testserver|Europe/Berlin|Idempotency-Key|hook|mine|nobody"
)
"""What is data, code or a name: of these tests, of the desk, of formats and protocols."""


class Marking(NullTranslations):
    def gettext(self, message: str) -> str:
        return f"{OPEN}{message}{CLOSE}"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Language]:
    """Stands for Chinese, whose dates and numbers it has."""
    marking = Language("zh-CN", "简体中文", CHINESE.locale, Marking())
    monkeypatch.setitem(language.LANGUAGES, "zh-CN", marking)  # type: ignore[arg-type]
    return marking


def outside(text: str) -> str:
    """What stands outside all marks."""
    depth, kept = 0, list[str]()
    for character in text:
        if character in (OPEN, CLOSE):
            depth += 1 if character == OPEN else -1
            kept.append(" ")
        elif depth == 0:
            kept.append(character)
    return "".join(kept)


def unmarked(html: str) -> list[str]:
    """The visible words that nothing translated."""
    parsed = LexborHTMLParser(html)
    for found in parsed.css(SILENT):
        found.decompose()
    root: LexborNode | None = parsed.root
    assert root is not None
    texts = [
        outside(" ".join(each.text_content or "" for each in root.traverse(include_text=True) if each.tag == "-text"))
    ]
    for each in root.traverse():
        texts += [outside(each.attributes.get(name) or "") for name in SPOKEN]
    return [word for text in texts for word in WORD.findall(DATA.sub(" ", text))]


@pytest.fixture
async def addresses(resources: Resources, admin: Viewer, user: Viewer, make_export: ExportMaker) -> list[str]:
    """Of pages and of parts of pages, with something of every kind on them."""
    exports = [await make_export(status) for status in Status]
    exports.append(await make_export(Status.SUCCESS, aged_out=True))
    lost = await make_export(Status.SUCCESS)
    exports.append(await changed(resources, lost, status=Status.EXPIRED, error=FILE_LOST, version=lost.version + 1))
    warned = await make_export(Status.SUCCESS)
    warnings = tuple(FormatWarning(code, "", count) for code in WARNINGS for count in (1, 2))
    exports.append(await changed(resources, warned, warnings=warnings, version=warned.version + 1))
    for phase in Phase:
        running = await make_export(Status.PROCESSING)
        exports.append(await changed(resources, running, phase=phase, rows_done=5, rows_total=10))
    retried = await make_export(Status.FAILED)
    at = await resources.store.now() + timedelta(minutes=1)
    exports.append(await changed(resources, retried, status=Status.QUEUED, retry_at=at, version=retried.version + 1))
    now = await resources.store.now()
    endpoints = [
        await register(resources, "https://a.example/hook"),
        await register(resources, "https://b.example/hook", paused_at=now),
        await register(resources, "https://c.example/hook", disabled_at=now, disabled_reason="FAILING"),
        await register(resources, "https://d.example/hook", failures_in_row=3, failing_since=now),
    ]
    deliveries = [id for endpoint in endpoints for id in await owe(resources, endpoint, 2)]
    inspector = await inspectors.create(resources, admin)
    return [
        "/exports", "/exports?all=1", "/exports?q=nothing", "/exports/live", "/exports/new", "/exports/new?q=none",
        "/exports/new?dataset=things", "/exports/new?dataset=slow", "/exports/new/preview?dataset=things",
        "/exports/new/columns?dataset=things", "/exports/new?dataset=things&o.columns=id&o.columns=gone",
        "/exports/new/preview?dataset=broken", "/exports/new/preview?dataset=things&p.most=x",
        *(f"/exports/{export.id}" for export in exports), *(f"/exports/{export.id}/live" for export in exports),
        "/callbacks", "/callbacks/live", "/callbacks/new", "/callbacks/deliveries",
        "/callbacks/deliveries?type=export.queued", "/callbacks/sample?trial_type=export.created",
        *(f"/callbacks/{endpoint.id}{part}" for endpoint in endpoints
          for part in ("", "/edit", "/secret", "/recovery", "/deliveries", "/deliveries?status=dead")),
        *(f"/callbacks/deliveries/{id}" for id in deliveries[:3]),
        "/inspect", f"/inspect/{inspector.token}", f"/inspect/{inspector.token}/settings", "/monitor",
        "/monitor/counted?kind=ends", "/saved-orders", f"/saved-orders/new?from={exports[3].id}",
        "/account", "/account/tokens", "/admin/users", "/admin/groups", "/admin/datasets", "/admin/tokens",
        "/admin/audit", f"/admin/users/{user.id}", "/docs", "/docs/api", "/nothing/here",
    ]  # fmt: skip


async def test_no_page_says_a_word_past_the_catalog(admin_client: httpx.AsyncClient, addresses: list[str]) -> None:
    admin_client.headers["Accept-Language"] = "zh-CN"
    found = dict[str, list[str]]()
    for address in addresses:
        response = await admin_client.get(address)
        assert response.status_code < 500, address
        if "html" in response.headers.get("content-type", "") and (words := unmarked(response.text)):
            found[address] = sorted(set(words))
    assert "; ".join(f"{address}: {' '.join(words)}" for address, words in found.items()) == ""


FORMS: list[tuple[str, dict[str, Any]]] = [
    ("/exports", {"dataset": "things", "format": "csv", "p.most": "x"}),
    ("/exports", {"dataset": "things", "format": "no"}),
    ("/exports/selection", {"action": "delete"}),
    ("/exports/selection", {"action": "delete", "ids": "exp_1"}),
    ("/exports/selection", {"matching": "delete", "back": "all=1"}),
    ("/callbacks", {"url": "ftp://x", "time_limit": "0", "rate": "x", "max_in_flight": "", "event_scope": "some"}),
    ("/callbacks", {"url": "http://u:p@h.example", "schedule": "own", "waits": "soon", "header_name": "a b"}),
    ("/callbacks/new/trial", {"url": "https://a.example", "trial_data": "{"}),
    ("/callbacks/hosts", {"hosts": "not a host!"}),
    ("/callbacks/redeliveries", {"scope": "matching"}),
    ("/account/password", {"present": "x", "new": "y", "again": "z"}),
    ("/account/settings", {"language": "", "timezone": "No/Where"}),
    ("/account/tokens", {"name": ""}),
    ("/admin/users", {"name": "not a name"}),
    ("/admin/groups", {"name": ""}),
    ("/saved-orders", {"dataset": "things", "format": "csv", "name": ""}),
]


@pytest.mark.parametrize(("address", "form"), FORMS)
async def test_no_form_says_what_is_wrong_past_the_catalog(
    admin_client: httpx.AsyncClient, address: str, form: dict[str, Any]
) -> None:
    admin_client.headers["Accept-Language"] = "zh-CN"
    response = await admin_client.post(address, data=form, follow_redirects=True)
    assert response.status_code < 500
    assert " ".join(unmarked(response.text)) == ""


ORDER = {"dataset": "things", "format": "csv"}
MISTAKES: list[tuple[str, str, Any]] = [
    ("GET", "/exports/exp_x", None),
    ("GET", "/nothing", None),
    ("GET", "/exports?limit=0", None),
    ("GET", "/exports?status=odd", None),
    ("GET", "/exports?since=soon", None),
    ("GET", "/exports?cursor=x", None),
    ("GET", "/events?after=x", None),
    ("GET", "/callbacks", None),
    ("DELETE", "/datasets", None),
    ("POST", "/exports", {}),
    ("POST", "/exports", ORDER | {"dataset": "none"}),
    ("POST", "/exports", ORDER | {"params": {"most": "x"}}),
    ("POST", "/exports", ORDER | {"params": {"most": 5000, "search": 7, "mots": 1}}),
    ("POST", "/exports", ORDER | {"format": "docx"}),
    ("POST", "/exports", ORDER | {"options": {"bom": "maybe", "delimiter": "?"}}),
    ("POST", "/exports", ORDER | {"callback_url": "ftp://x"}),
    ("POST", "/exports", ORDER | {"callback_url": "https://a.example"}),
    ("POST", "/acknowledgements", {"events": ["x"]}),
    ("POST", "/datasets/broken/preview", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), MISTAKES)
async def test_every_problem_is_told_in_the_language_asked_for(
    client: httpx.AsyncClient, method: str, path: str, body: Any
) -> None:
    headers = {"Accept-Language": "zh-CN"}
    response = await client.request(method, f"/api/v1{path}", json=body, headers=headers)
    problem = response.json()
    assert response.headers["content-language"] == "zh-CN"
    assert "Accept-Language" in response.headers["vary"]
    told = [problem["title"], problem["detail"], *(error["message"] for error in problem.get("errors", ()))]
    assert [text for text in told if DATA.sub("", outside(text)).strip(" .")] == []
