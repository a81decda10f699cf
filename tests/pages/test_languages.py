"""Which language an answer is in, that nobody gets another's, and that the catalog lacks nothing."""

from __future__ import annotations

import ast
import asyncio
import re
import string
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from babel.messages.extract import extract_from_dir
from live.sse_reading import opened
from pages.dom import node, nodes, parsed, text, texts

from webapp import language
from webapp.actions import exports
from webapp.domain import errors
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, ExportError, export_error, in_words, recalled
from webapp.domain.exports import Export, Status
from webapp.domain.sentences import Text, say, say_many
from webapp.language import CHINESE, ENGLISH, LANGUAGES, LOCALES, gettext, ngettext, read_messages, speaking
from webapp.resources import Resources
from webapp.web import words
from webapp.web.languages import COOKIE, accepted_language
from webapp.web.render import static_folder, template_folder

ROOT = Path(__file__).resolve().parents[2]
ExportMaker = Callable[..., Awaitable[Export]]
ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]
KEYWORDS: dict[str, Any] = {
    "_": None, "say": None, "gettext": None, "ngettext": (1, 2), "say_many": (1, 2), "sayMany": (1, 2),
}  # fmt: skip
MESSAGES = read_messages(LOCALES / "zh_CN" / "LC_MESSAGES" / "exportdesk.po")
CALL = re.compile(r"\b(?:textContent|innerText|placeholder|title|ariaLabel)\s*=\s*[`\"](?=[A-Z])")


def extracted() -> Iterator[str]:
    """Every pattern of templates, scripts and Python, as pybabel would find it with pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    methods = [(one["pattern"], one["method"]) for one in project["tool"]["babel"]["mappings"]]
    for _, _, message, _, _ in extract_from_dir(ROOT, methods, {}, keywords=KEYWORDS):
        yield message if isinstance(message, str) else message[0]


def blanks(pattern: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(pattern) if name}


def forms(message: Any) -> tuple[str, ...]:
    return (message,) if isinstance(message, str) else tuple(message)


def test_the_catalog_has_every_sentence() -> None:
    known = {forms(message.id)[0] for message in MESSAGES if message.id}
    found = set(extracted())
    assert len(found) > 1000
    assert found - known == set()


def test_every_sentence_is_translated_with_its_blanks() -> None:
    for message in MESSAGES:
        if message.id:
            assert not message.fuzzy, message.id
            assert all(forms(message.string)), message.id
            assert {name for form in forms(message.string) for name in blanks(form)} == blanks(forms(message.id)[-1])


@pytest.mark.parametrize("path", sorted(static_folder().glob("*.js")), ids=lambda path: path.name)
def test_scripts_write_no_sentence_past_the_catalog(path: Path) -> None:
    assert CALL.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted((ROOT / "webapp").rglob("*.py")), ids=lambda path: path.name)
def test_no_sentence_hides_in_an_f_string(path: Path) -> None:
    """Python 3.11's tokens have it as one string, so that no extraction finds it."""
    inside = (
        call
        for formatted in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(formatted, ast.JoinedStr)
        for call in ast.walk(formatted)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in KEYWORDS
    )
    assert [call.lineno for call in inside if call.args and isinstance(call.args[0], ast.Constant)] == []


@pytest.mark.parametrize("path", sorted(template_folder().rglob("*.html")), ids=lambda path: path.name)
def test_templates_make_no_plural_of_their_own(path: Path) -> None:
    assert "|counted(" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("header", "tag"),
    [
        ("", None),
        ("*", None),
        ("fr, de;q=0.8", None),
        ("en", "en"),
        ("en-US,en;q=0.9,zh-CN;q=0.8", "en"),
        ("zh", "zh-CN"),
        ("ZH-cn", "zh-CN"),
        ("zh-Hans-CN", "zh-CN"),
        ("zh-TW,zh;q=0.9,en;q=0.8", "zh-CN"),
        ("fr;q=1, zh;q=0.3, en;q=0.2", "zh-CN"),
        ("zh;q=0, en;q=0.1", "en"),
        ("en;q=0.5, zh;q=0.5", "en"),
        ("zh;q=2, en", "en"),
        ("\x00;q=;,,,", None),
        ("a" * 10_000, None),
    ],
)
def test_what_a_browser_asks_for(header: str, tag: str | None) -> None:
    assert accepted_language(header) == tag


@pytest.mark.parametrize(
    ("cookie", "header", "tag"),
    [
        (None, None, "en"),
        (None, "zh-CN", "zh-CN"),
        ("zh-CN", None, "zh-CN"),
        ("en", "zh-CN", "en"),
        ("tlh", "zh-CN", "zh-CN"),
    ],
)
async def test_the_choice_comes_before_the_browsers_wish(
    anonymous: httpx.AsyncClient, cookie: str | None, header: str | None, tag: str
) -> None:
    if cookie:
        anonymous.cookies.set(COOKIE, cookie)
    page = await anonymous.get("/sign-in", headers={"Accept-Language": header} if header else {})
    assert node(page, "html").attributes["lang"] == tag
    assert page.headers["content-language"] == tag
    assert {"Accept-Language", "Cookie"} <= set(page.headers["vary"].split(", "))
    assert text(page, "h1") == {"en": "Sign in", "zh-CN": "登录"}[tag]


async def test_a_desk_may_speak_another_language_by_default(anonymous: httpx.AsyncClient, app: Any) -> None:
    settings = app.state.resources.settings
    object.__setattr__(settings, "language", "zh-CN")
    assert text(await anonymous.get("/sign-in"), "h1") == "登录"
    assert text(await anonymous.get("/sign-in", headers={"Accept-Language": "en"}), "h1") == "Sign in"


@pytest.mark.parametrize(
    ("given", "leads_to"),
    [("/docs?x=1", "/docs?x=1"), ("/sign-in?next=%2Fexports", "/sign-in?next=%2Fexports"),
     ("//evil.example", "/exports"), ("https://evil.example", "/exports")],
)  # fmt: skip
async def test_the_switch_at_the_foot_leads_back(anonymous: httpx.AsyncClient, given: str, leads_to: str) -> None:
    switched = await anonymous.post("/language", data={"language": "zh-CN", "next": given})
    assert (switched.status_code, switched.headers["location"]) == (303, leads_to)
    assert anonymous.cookies[COOKIE] == "zh-CN"
    page = await anonymous.get("/docs")
    chosen = parsed(page).css(".languages [aria-current]")
    assert [each.attributes["value"] for each in chosen] == ["zh-CN"]
    assert node(page, ".languages input[name=next]").attributes["value"] == "/docs"


async def test_the_docs_are_told_in_the_readers_language_but_for_their_examples(anonymous: httpx.AsyncClient) -> None:
    english, chinese = [await anonymous.get("/docs", headers={"Accept-Language": tag}) for tag in ("en", "zh-CN")]
    assert nodes(chinese, ".docs [lang]") == []
    told = texts(chinese, ".docs-text :is(h2, h3, p:not(.snippet-install), li, #problems td + th + td, #endings td)")
    assert [each for each in told if not re.search("[\u4e00-\u9fff]", each)] == ["WebSocket"]
    assert texts(chinese, ".docs pre") == texts(english, ".docs pre")
    assert re.search("[\u4e00-\u9fff]", text(english, ".docs")) is None


async def test_what_the_reference_takes_from_its_document_is_english_and_says_so(anonymous: httpx.AsyncClient) -> None:
    english, chinese = [await anonymous.get("/docs/api", headers={"Accept-Language": tag}) for tag in ("en", "zh-CN")]
    assert "各项说明取自该文档，为英文。" in text(chinese, ".head p")
    assert "descriptions" not in text(english, ".head p")
    assert len(nodes(chinese, ".reference [lang=en]")) > 1000
    assert [each for each in texts(chinese, ".reference [lang=en]") if re.search("[\u4e00-\u9fff]", each)] == []
    assert {"listExports 的参数", "listExports 的响应"} <= set(texts(chinese, "#listExports caption"))


async def test_an_unknown_language_changes_nothing(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.post("/language", data={"language": "tlh", "next": "/docs"})
    assert "set-cookie" not in answer.headers


async def test_scripts_get_their_sentences_from_an_address_that_names_them(anonymous: httpx.AsyncClient) -> None:
    page = await anonymous.get("/sign-in", headers={"Accept-Language": "zh"})
    [address] = [
        each.attributes["src"] for each in parsed(page).css("script[src]") if "/words/" in str(each.attributes["src"])
    ]
    script = await anonymous.get(str(address))
    assert "immutable" in script.headers["cache-control"]
    assert "您已离线" in script.text
    english = await anonymous.get("/sign-in", headers={"Accept-Language": "en"})
    assert "/words/" not in english.text
    assert (await anonymous.get("/words/tlh.js")).status_code == 404


@pytest.mark.parametrize(
    "path", ["/exports", "/exports/live", "/exports/{id}", "/exports/{id}/live", "/exports/x/live"]
)
async def test_who_reads_the_same_in_two_languages_at_once_never_gets_the_other(
    make_client: ClientMaker, user: Viewer, make_export: ExportMaker, path: str
) -> None:
    export = await make_export(Status.SUCCESS)
    clients = [await make_client(user) for _ in range(2)]
    clients[1].cookies.set(COOKIE, "zh-CN")
    for _ in range(3):
        english, chinese = await asyncio.gather(*(each.get(path.format(id=export.id)) for each in clients))
        assert re.search("[\u4e00-\u9fff]", re.sub("简体中文", "", english.text)) is None
        assert re.search("[\u4e00-\u9fff]", chinese.text)


async def test_each_stream_speaks_its_readers_language(
    make_client: ClientMaker, user: Viewer, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    clients = [await make_client(user) for _ in range(2)]
    clients[1].cookies.set(COOKIE, "zh-CN")
    url = f"/exports/{export.id}/stream"
    async with opened(clients[0], url) as english, opened(clients[1], url) as chinese:
        assert ("Queued" in (await english.next()).data, "排队中" in (await chinese.next()).data) == (True, True)
        await exports.cancel(resources, user, export.id)
        assert ("Cancelled" in (await english.next()).data, "已取消" in (await chinese.next()).data) == (True, True)


async def test_a_program_is_answered_by_its_header_and_data_is_the_same_for_all(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.FAILED)
    client.cookies.set(COOKIE, "zh-CN")
    data = await client.get(f"/api/v1/exports/{export.id}")
    assert data.json()["error"]["message"].startswith("The data source refused the query")
    assert "content-language" not in data.headers
    problem = await client.get("/api/v1/exports/exp_1")
    assert problem.json()["detail"] == "没有这样的内容，或不属于您。"
    assert problem.json()["code"] == "NOT_FOUND"
    by_token = await client.get(
        "/api/v1/exports/exp_1", headers={"Authorization": "Bearer wrong", "Accept-Language": "en"}
    )
    assert by_token.json()["detail"] == "Sign in, or send a valid token."


async def test_a_stored_sentence_is_told_in_the_readers_language(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.FAILED)
    page = await client.get(f"/exports/{export.id}", headers={"Accept-Language": "zh-CN"})
    assert text(page, "#headline") == "数据源拒绝了查询：no such table: things。请告知本服务的管理者。"


@pytest.mark.parametrize("code", ErrorCode)
def test_every_stored_sentence_is_read_back(code: ErrorCode) -> None:
    error = export_error(code, limit="1,000", detail="a detail: {with} (marks)")
    told = recalled(error)
    assert isinstance(told, Text)
    assert (str(told), told.msgid) == (error.message, errors.SENTENCES[code].msgid)


@pytest.mark.parametrize("reason", errors.REASONS)
def test_words_of_ours_within_it_are_told_too(reason: Text) -> None:
    error = export_error(ErrorCode.FORMAT_LIMIT, detail=reason.format(name="x", limit=7))
    with speaking(CHINESE):
        assert not re.search("[a-z]{4}", gettext(recalled(error)).replace("Unicode", ""))


@pytest.mark.parametrize(
    ("seconds", "length"), [(1, "1 秒"), (90, "90 秒"), (4000, "4,000 秒"), (1800, "30 分钟"), (7200, "2 小时")]
)
def test_a_time_limit_within_it_is_told_too(seconds: int, length: str) -> None:
    error = export_error(ErrorCode.TIMEOUT, limit=in_words(timedelta(seconds=seconds)))
    with speaking(CHINESE):
        assert gettext(recalled(error)) == f"导出运行超过了 {length} 的时限。请缩小参数范围后重试。"


def test_what_no_release_wrote_stays_as_it_is() -> None:
    error = ExportError(ErrorCode.TIMEOUT, "It took until Doomsday.", retriable=False)
    assert recalled(error) == error.message


def test_a_text_is_english_until_it_is_told() -> None:
    text = say_many("{n} match.", "{n} matches.", 1200)
    assert text == "1,200 matches."
    outer = say("{shown} of {total}; type more to narrow them down.", shown=text, total=7)
    assert outer == "1,200 matches. of 7; type more to narrow them down."
    with speaking(CHINESE):
        assert gettext(outer) == "显示 1,200 个匹配项。 项，共 7 项；继续输入以缩小范围。"
    assert gettext(outer) == outer


def test_a_value_that_is_html_makes_html_and_nothing_else_does() -> None:
    with speaking(CHINESE):
        assert gettext("to {endpoint}", endpoint=words.Markup("<b>&amp;</b>")) == "发往 <b>&amp;</b>"
        told = gettext("{title}, newest first", title="<i>")
        assert (told, hasattr(told, "__html__")) == ("<i>，最新的在前", False)
        mixed = gettext("{endpoint} was disabled {moment}.", endpoint="<i>", moment=words.Markup("<time></time>"))
        assert mixed == "&lt;i&gt; 已于 <time></time> 停用。"


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [(0, "0 s", "0 秒"), (59, "59 s", "59 秒"), (200, "3 min 20 s", "3 分钟 20 秒"), (7200, "2 h", "2 小时"),
     (90_000, "1 d 1 h", "1 天 1 小时")],
)  # fmt: skip
def test_durations(seconds: int, english: str, chinese: str) -> None:
    with speaking(ENGLISH):
        assert words.duration(seconds) == english
    with speaking(CHINESE):
        assert words.duration(seconds) == chinese


def test_counts_by_number() -> None:
    assert [ngettext("{n} row", "{n} rows", n) for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    with speaking(CHINESE):
        assert ngettext("{n} row", "{n} rows", 12_345) == "12,345 行"
    assert language.current() is LANGUAGES["en"]
