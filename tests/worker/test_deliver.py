"""One request to a receiver that behaves, and to many that do not: what is said of it, and that it ends in time."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
import receivers
from patience import PATIENCE
from receivers import Behaviour, answer, receiver

from webapp.actions.messages import Outgoing, outgoing
from webapp.domain.addresses import AllowedTargets
from webapp.domain.callbacks import Answer, EndpointSettings, ErrorClass, Message
from webapp.domain.signing import new_secret
from worker.deliver import send
from worker.guard import Guard, Reach, reach

LOOPBACK = AllowedTargets.parse(["127.0.0.0/8", "::1/128"])
NOW = datetime.now(UTC)


async def nothing_is_an_inspector(url: str) -> bool:
    return False


def resolving(*answers: Sequence[str]) -> Guard:
    """A guard without exceptions whose name server gives these answers in turn, the last one for ever."""
    left = list(answers)

    def look_up(host: str, port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return Guard(AllowedTargets(), nothing_is_an_inspector, look_up)


@pytest.fixture
async def guard() -> AsyncIterator[Guard]:
    """Loopback is allowed: the receivers are there."""
    async with Guard(LOOPBACK, nothing_is_an_inspector) as made:
        yield made


def request(url: str, **choices: object) -> Outgoing:
    settings = EndpointSettings(url, **choices)  # type: ignore[arg-type]
    return outgoing(settings, [new_secret()], Message("evt_1", "export.succeeded", NOW, {"id": "exp_1"}), at=NOW)


async def sent_to(guard: Guard, behave: Behaviour, *, time_limit: float = PATIENCE) -> Answer:
    async with receiver(behave) as made:
        return await send(request(made.url), time_limit=time_limit, guard=guard)


async def test_what_arrives_is_what_was_composed_and_nothing_more(guard: Guard) -> None:
    async with receiver() as made:
        sent = request(f"http://127.0.0.1:{made.port}/a%2Fb?c=%20d&e=f", headers=(("X-Team", "blue"),))
        got = await send(sent, time_limit=PATIENCE, guard=guard)
    (arrived,) = made.requests
    assert (got.error, got.status, got.body) == (None, 204, "")
    assert 0 < got.seconds < PATIENCE
    assert arrived.path == "/a%2Fb?c=%20d&e=f"
    assert arrived.body == sent.body
    expected = {name.lower() for name, _ in sent.headers} | {"host", "content-length"}
    assert {name.lower() for name in arrived.headers} == expected
    assert all(arrived.headers[name] == value for name, value in sent.headers)
    assert arrived.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, None),
        (202, None),
        (299, None),
        (301, ErrorClass.REDIRECT),
        (304, ErrorClass.REDIRECT),
        (400, ErrorClass.HTTP_4XX),
        (410, ErrorClass.GONE),
        (500, ErrorClass.HTTP_5XX),
        (503, ErrorClass.HTTP_5XX),
        (799, ErrorClass.BAD_ANSWER),
    ],
)
async def test_only_2xx_is_success(guard: Guard, status: int, error: ErrorClass | None) -> None:
    got = await sent_to(guard, answer(status, b"" if status == 304 else b"why"))
    assert (got.status, got.error) == (status, error)


@pytest.mark.parametrize(
    ("behave", "error", "status"),
    [
        (receivers.hang, ErrorClass.TIMEOUT, None),
        (receivers.drip_headers, ErrorClass.TIMEOUT, None),
        (receivers.hang_after_headers, ErrorClass.TIMEOUT, 200),
        (receivers.drip, ErrorClass.TIMEOUT, 200),
        (receivers.close_at_once, ErrorClass.DISCONNECTED, None),
        (receivers.close_in_the_middle, ErrorClass.DISCONNECTED, 200),
        (receivers.garbage, ErrorClass.BAD_ANSWER, None),
        (receivers.headers_without_end, ErrorClass.BAD_ANSWER, None),
    ],
)
async def test_each_misbehaviour_has_its_class_and_ends(
    guard: Guard, behave: Behaviour, error: ErrorClass, status: int | None
) -> None:
    """Those that would go on for ever end with the time limit."""
    limit = 1.0 if error is ErrorClass.TIMEOUT else PATIENCE
    got = await asyncio.wait_for(sent_to(guard, behave, time_limit=limit), 2 * PATIENCE)
    assert (got.error, got.status) == (error, status)


async def test_what_came_before_the_end_is_kept(guard: Guard) -> None:
    assert (await sent_to(guard, receivers.close_in_the_middle)).body == "the beginning"
    assert (await sent_to(guard, receivers.hang_after_headers, time_limit=0.3)).body == "half"


async def test_of_a_big_answer_16_kilobytes_are_read_and_the_connection_is_closed(guard: Guard) -> None:
    async with receiver(receivers.ten_megabytes) as made:
        got = await send(request(made.url), time_limit=PATIENCE, guard=guard)
        await send(request(made.url), time_limit=PATIENCE, guard=guard)
    assert (got.error, got.status, got.is_cut, got.body) == (None, 200, True, "x" * 16384)
    assert made.connections == 2


async def test_nothing_is_decompressed(guard: Guard) -> None:
    got = await sent_to(guard, receivers.gzip_bomb)
    assert (got.error, got.is_cut) == (None, True)
    assert got.body.startswith("\x1f\ufffd")
    assert len(got.body) <= 16384


async def test_an_answer_is_made_fit_for_the_database(guard: Guard) -> None:
    got = await sent_to(guard, answer(200, b"a\0b\xff\xe6\x9d\xb1", X_Odd="\xe9\xff"))
    assert got.body == "ab\ufffd東"
    ("x".join(value for _, value in got.headers)).encode()


async def test_many_long_headers_are_cut(guard: Guard) -> None:
    many = {f"X_{number}": "y" * 2000 for number in range(60)}
    got = await sent_to(guard, answer(200, b"", **many))
    assert (len(got.headers), max(len(value) for _, value in got.headers)) == (50, 1000)


async def test_a_redirect_is_not_followed(guard: Guard) -> None:
    async with receiver() as inside, receiver() as made:
        for location in (inside.url, "http://169.254.169.254/latest/meta-data/"):
            made.behave = answer(302, b"", Location=location)
            got = await send(request(made.url), time_limit=PATIENCE, guard=guard)
            assert (got.error, got.status) == (ErrorClass.REDIRECT, 302)
    assert inside.connections == 0


async def test_no_cookie_comes_back(guard: Guard) -> None:
    async with receiver(answer(200, Set_Cookie="a=b; Path=/")) as made:
        for _ in range(2):
            await send(request(made.url), time_limit=PATIENCE, guard=guard)
    assert "Cookie" not in made.requests[1].headers


async def test_a_proxy_of_the_environment_is_not_used(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiver() as proxy, receiver() as made:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await send(request(made.url), time_limit=PATIENCE, guard=guard)).error is None
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("status", "given", "seconds"),
    [
        (429, "120", 120),
        (503, "7", 7),
        (503, "99999999999999", 3600),
        (429, timedelta(seconds=90), 90),
        (429, timedelta(hours=-2), 0),
        (429, "soon", None),
        (429, "-5", None),
        (500, "120", None),
        (200, "120", None),
    ],
)
async def test_retry_after_is_read_in_seconds_and_as_a_date(
    guard: Guard, status: int, given: str | timedelta, seconds: float | None
) -> None:
    if isinstance(given, timedelta):
        given = format_datetime(datetime.now(UTC) + given, usegmt=True)
    got = await sent_to(guard, answer(status, Retry_After=given))
    assert got.retry_after == (None if seconds is None else pytest.approx(seconds, abs=10))


@pytest.mark.parametrize("minutes", [-10, 10])
async def test_a_date_to_retry_after_is_by_the_clock_of_who_gave_it(guard: Guard, minutes: int) -> None:
    there = datetime.now(UTC) + timedelta(minutes=minutes)
    dates = {"Date": there, "Retry_After": there + timedelta(seconds=30)}
    told = {name: format_datetime(date, usegmt=True) for name, date in dates.items()}
    assert (await sent_to(guard, answer(503, **told))).retry_after == 30


async def test_nobody_listens(guard: Guard) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        got = await send(request(f"http://127.0.0.1:{free.getsockname()[1]}/"), time_limit=PATIENCE, guard=guard)
    assert (got.error, got.status) == (ErrorClass.REFUSED, None)


async def test_a_name_that_does_not_exist() -> None:
    def look_up(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with Guard(AllowedTargets(), nothing_is_an_inspector, look_up) as guard:
        got = await send(request("http://nowhere.example/"), time_limit=PATIENCE, guard=guard)
    assert got.error is ErrorClass.DNS


async def test_a_name_server_that_hangs_is_waited_for_no_longer_than_the_limit_and_holds_up_nobody() -> None:
    released = threading.Event()

    def look_up(host: str, port: int) -> Sequence[str]:
        if host == "hangs.example":
            released.wait(2 * PATIENCE)
        return ["127.0.0.1"]

    async with receiver() as made, Guard(LOOPBACK, nothing_is_an_inspector, look_up) as guard:
        hanging = [
            asyncio.create_task(send(request("http://hangs.example/"), time_limit=0.5, guard=guard)) for _ in range(200)
        ]
        await asyncio.sleep(0.1)
        got = await send(request(f"http://quick.example:{made.port}/"), time_limit=PATIENCE, guard=guard)
        assert got.error is None
        assert {one.error for one in await asyncio.gather(*hanging)} == {ErrorClass.TIMEOUT}
        released.set()


@pytest.mark.parametrize(
    "answers",
    [
        [["127.0.0.1"]],
        [["93.184.216.34", "127.0.0.1"]],
        [["127.0.0.1", "2606:2800:220:1:248:1893:25c8:1946"]],
        [["::ffff:127.0.0.1"]],
        [["::1"]],
        [["64:ff9b::7f00:1"]],
        [["fe80::1%lo"]],
        [["not an address"]],
    ],
)
async def test_a_name_with_a_forbidden_address_among_its_own_is_not_reached(answers: list[list[str]]) -> None:
    async with receiver() as made, resolving(*answers) as guard:
        got = await send(request(f"http://name.example:{made.port}/"), time_limit=3, guard=guard)
        assert (got.error, made.connections) == (ErrorClass.ADDRESS_FORBIDDEN, 0)


async def test_a_name_that_changes_between_check_and_dial_is_not_reached() -> None:
    """Whoever checked before saw a public address; what counts is what is about to be dialled."""
    async with receiver() as made, resolving(["93.184.216.34"], ["127.0.0.1"]) as guard:
        assert await guard.addresses("name.example", made.port) == ["93.184.216.34"]
        got = await send(request(f"http://name.example:{made.port}/"), time_limit=3, guard=guard)
        assert (got.error, made.connections) == (ErrorClass.ADDRESS_FORBIDDEN, 0)


async def test_the_dialled_address_is_checked_again_whatever_was_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of the two checks, with the first one taken away."""

    async def unchecked(self: Guard, host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "::1"]

    monkeypatch.setattr(Guard, "addresses", unchecked)
    async with receiver() as made, resolving([]) as guard:
        got = await send(request(f"http://name.example:{made.port}/"), time_limit=3, guard=guard)
        assert (got.error, made.connections) == (ErrorClass.ADDRESS_FORBIDDEN, 0)


async def test_an_address_in_the_url_is_refused_by_the_text_and_at_the_dial() -> None:
    async with receiver() as made, resolving([]) as guard:
        got = await send(request(made.url), time_limit=3, guard=guard)
        assert got.error is ErrorClass.ADDRESS_FORBIDDEN
        destination, session = await guard.admit("http://93.184.216.34/")
        reach.set(Reach(destination.target))
        with pytest.raises(OSError):  # noqa: PT011 - aiohttp's own kind of it
            await session.get(made.url)
        assert made.connections == 0


async def test_host_and_port_that_an_admin_allowed_are_reached_and_no_other_port() -> None:
    async with receiver() as made, receiver() as other:
        allowed = AllowedTargets.parse([f"hooks.internal:{made.port}"])
        async with Guard(allowed, nothing_is_an_inspector, lambda host, port: ["127.0.0.1"]) as guard:
            urls = [f"http://hooks.internal:{port}/" for port in (made.port, other.port)]
            got = [await send(request(url), time_limit=3, guard=guard) for url in urls]
    assert [one.error for one in got] == [None, ErrorClass.ADDRESS_FORBIDDEN]
    assert (made.connections, other.connections) == (1, 0)


async def test_an_inspector_is_reached_by_its_exact_url_alone() -> None:
    async with receiver() as made:
        inspector = f"http://localhost:{made.port}/inspect/token"

        async def is_inspector(url: str) -> bool:
            return url == inspector

        async with Guard(AllowedTargets(), is_inspector) as guard:
            first = await send(request(inspector), time_limit=3, guard=guard)
            others = [f"{inspector}/more", f"{inspector}?x", f"http://localhost:{made.port}/exports", made.url]
            got = [await send(request(url), time_limit=3, guard=guard) for url in others]
    assert first.error is None
    assert {one.error for one in got} == {ErrorClass.ADDRESS_FORBIDDEN}
    assert made.connections == 1


async def test_an_inspectors_connection_carries_no_other_request() -> None:
    """Our own host may have a name that is not forbidden by itself, only by the address it leads to."""
    async with receiver() as made:
        host = f"http://desk.internal:{made.port}"

        async def is_inspector(url: str) -> bool:
            return url == f"{host}/inspect/token"

        async with Guard(AllowedTargets(), is_inspector, lambda host, port: ["127.0.0.1"]) as guard:
            assert (await send(request(f"{host}/inspect/token"), time_limit=3, guard=guard)).error is None
            got = await send(request(f"{host}/exports"), time_limit=3, guard=guard)
        assert (got.error, made.connections) == (ErrorClass.ADDRESS_FORBIDDEN, 1)


async def test_requests_in_a_row_share_a_connection_that_is_soon_closed_when_unused(guard: Guard) -> None:
    async with receiver() as made:
        for _ in range(5):
            await send(request(made.url), time_limit=PATIENCE, guard=guard)
        assert made.connections == 1
        await asyncio.sleep(2.2)
        await send(request(made.url), time_limit=PATIENCE, guard=guard)
        assert made.connections == 2


@asynccontextmanager
async def tls_receiver(folder: Path) -> AsyncIterator[int]:
    """With a certificate that nobody has signed."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command.split(), "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_a_certificate_that_is_not_valid_is_refused(guard: Guard, tmp_path: Path) -> None:
    async with tls_receiver(tmp_path) as port:
        got = await send(request(f"https://127.0.0.1:{port}/"), time_limit=PATIENCE, guard=guard)
    assert got.error is ErrorClass.TLS


async def test_https_to_a_plain_server(guard: Guard) -> None:
    async with receiver() as made:
        got = await send(request(made.url.replace("http", "https", 1)), time_limit=1, guard=guard)
    assert got.error in {ErrorClass.TLS, ErrorClass.TIMEOUT, ErrorClass.DISCONNECTED}
