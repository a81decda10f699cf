"""The URL of an endpoint: what is refused and why, and that every reader of an accepted one sees the same host."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
import yarl
from hypothesis import example, given
from hypothesis import strategies as st

from webapp.domain.addresses import AllowedTargets
from webapp.domain.targets import LONGEST_URL, OTHER_PROTOCOLS, BadTarget, Target, parse_target

PRIVATE = "private, local or reserved"

INSIDE = [
    "http://127.0.0.1/",
    "http://0.0.0.0/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[2002:7f00:1::1]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST:8000/",
    "http://app.localhost/",
    "http://localhost。/",
    "http://ⓛocalhost/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://192.168.1.1/",
    "http://[fc00::1]/",
    "http://[fe80::1]/",
    "http://224.0.0.1/",
    "http://[ff02::1]/",
    "http://127。0。0。1/",
    "http://１２７.０.０.１/",
]

OTHER_SPELLINGS = [
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://127.0.0.0x1/",
    "http://0177.0.0.1/",
    "http://0/",
    "http://1.2.3.4./",
    "http://1.2.3.4.5/",
    "http://256.1.1.1/",
]

UNREADABLE = [
    ("", "Give the URL"),
    ("ftp://example.com/", "starts with https"),
    ("file:///etc/passwd", "starts with https"),
    ("javascript:alert(1)", "starts with https"),
    ("//example.com/hook", "starts with https"),
    ("example.com/hook", "starts with https"),
    ("http://", "names no host"),
    ("http:///hook", "names no host"),
    ("http:/example.com/", "names no host"),
    ("http://:80/", "names no host"),
    ("http://user:pass@example.com/", "user name"),
    ("http://example.com@127.0.0.1/", "user name"),
    ("http://@example.com/", "user name"),
    ("http://127.0.0.1#@example.com/", PRIVATE),
    ("http://example.com:0/", "Port 0"),
    ("http://example.com:99999/", "cannot be read"),
    ("http://example.com:-1/", "cannot be read"),
    ("http://example.com:８０/", "cannot be read"),
    ("http://example.com:x/", "cannot be read"),
    ("http://exa mple.com/", "no spaces"),
    ("http://example.com/a\r\nx-header: 1", "no spaces"),
    ("http://example.com/\t", "no spaces"),
    (" http://example.com/", "no spaces"),
    ("http://example.com\\@127.0.0.1/", "backslashes"),
    ("http://example.com/\0", "no spaces"),
    ("http://example.com/\x7f", "no spaces"),
    ("http://example.com/\ud800", "cannot be read"),
    ("http://example.com/?q=\udfff", "cannot be read"),
    ("http://[::1/", "cannot be read"),
    ("http://[example.com]/", "IPv6|cannot be read"),
    ("http://[v1.example.com]/", "IPv6|cannot be read"),
    ("http://[2606:4700::1111].internal/", "IPv6|cannot be read"),
    ("http://internal[2606:4700::1111]/", "IPv6|cannot be read"),
    ("http://[2606:4700::1111%25eth0]/", "IPv6|cannot be read"),
    ("http://-example.com/", "a name that can be looked up"),
    ("http://exa$mple.com/", "a name that can be looked up"),
    ("http://%6cocalhost/", "a name that can be looked up"),
    ("http://a..b/", "a name that can be looked up"),
    ("http://" + "a" * 64 + ".com/", "a name that can be looked up"),
    ("http://" + "a." * 130 + "com/", "a name that can be looked up"),
    ("http://faß.de/", "ASCII form"),
    ("http://βόλος.com/", "ASCII form"),
    ("https://example.com/" + "a" * LONGEST_URL, "at most"),
]

PLAIN = {
    "https://example.com/hooks/exports": Target("https", "example.com", 443, "/hooks/exports"),
    "https://example.com:8443/hooks?tenant=7&x=%20": Target("https", "example.com", 8443, "/hooks?tenant=7&x=%20"),
    "https://hooks.example.co.uk/a/b/c#fragment-is-dropped": Target("https", "hooks.example.co.uk", 443, "/a/b/c"),
    "https://bücher.example/hook": Target("https", "xn--bcher-kva.example", 443, "/hook"),
    "https://xn--fa-hia.de/": Target("https", "xn--fa-hia.de", 443, "/"),
    "https://EXAMPLE.com/CaseStays": Target("https", "example.com", 443, "/CaseStays"),
    "HTTPS://example.com": Target("https", "example.com", 443, "/"),
    "http://example.com?x=1": Target("http", "example.com", 80, "/?x=1"),
    "http://example.com:443/": Target("http", "example.com", 443, "/"),
    "http://example.com:/": Target("http", "example.com", 80, "/"),
    "http://example.com./": Target("http", "example.com.", 80, "/"),
    "http://my_service.example:8080/": Target("http", "my_service.example", 8080, "/"),
    "http://93.184.216.34/hook": Target("http", "93.184.216.34", 80, "/hook"),
    "http://[64:ff9b::8.8.8.8]/": Target("http", "64:ff9b::808:808", 80, "/"),
    "https://[2606:2800:220:1:248:1893:25c8:1946]/hook": Target(
        "https", "2606:2800:220:1:248:1893:25c8:1946", 443, "/hook"
    ),
    "https://example.com/ä/%C3%A4?ö=%zz": Target("https", "example.com", 443, "/%C3%A4/%C3%A4?%C3%B6=%zz"),
    "https://example.com//twice/../up;x?a?b": Target("https", "example.com", 443, "//twice/../up;x?a?b"),
}


@pytest.mark.parametrize("url", INSIDE)
def test_an_address_inside_is_refused(url: str) -> None:
    with pytest.raises(BadTarget, match=PRIVATE):
        parse_target(url)


@pytest.mark.parametrize("url", OTHER_SPELLINGS)
def test_an_address_is_written_in_one_way_only(url: str) -> None:
    with pytest.raises(BadTarget, match="four decimal numbers"):
        parse_target(url)


@pytest.mark.parametrize(("url", "why"), UNREADABLE)
def test_what_cannot_be_an_endpoint_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(BadTarget, match=why):
        parse_target(url)


@pytest.mark.parametrize(("url", "target"), PLAIN.items())
def test_a_plain_url_is_read_once_and_for_all(url: str, target: Target) -> None:
    assert parse_target(url) == target
    assert parse_target(target.url) == target


@pytest.mark.parametrize("port", [1, 22, 25, 79, 442, 1023, *OTHER_PROTOCOLS])
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    with pytest.raises(BadTarget, match=f"port {port}"):
        parse_target(f"https://example.com:{port}/")


@pytest.mark.parametrize("port", [80, 443, 1024, 8080, 8443, 65535])
def test_other_ports_are_accepted(port: int) -> None:
    assert parse_target(f"https://example.com:{port}/").port == port


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://10.1.2.3:6379/", "10.1.0.0/16"),
        ("http://[::ffff:10.1.2.3]/", "10.1.0.0/16"),
        ("http://[64:ff9b::10.1.2.3]/", "10.1.0.0/16"),
        ("http://[::1]:8000/", "::1/128"),
        ("http://[fd00::7]/", "fd00::/8"),
        ("http://localhost:8000/", "localhost:8000"),
        ("http://LOCALHOST.:8000/", "localhost:8000"),
        ("http://[0:0::1]:8000/", "[0:0:0:0:0:0:0:1]:8000"),
        ("http://receiver.internal:22/", "receiver.internal:22"),
    ],
)
def test_what_an_admins_setting_names_is_accepted(url: str, allowed: str) -> None:
    parse_target(url, AllowedTargets.parse([allowed]))


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://10.2.0.1/", "10.1.0.0/16"),
        ("http://localhost:8001/", "localhost:8000"),
        ("http://127.0.0.1:8000/", "localhost:8000"),
        ("http://user@localhost:8000/", "localhost:8000"),
    ],
)
def test_it_opens_nothing_else(url: str, allowed: str) -> None:
    with pytest.raises(BadTarget):
        parse_target(url, AllowedTargets.parse([allowed]))


HOSTS = st.one_of(
    st.sampled_from(
        ["example.com", "EXAMPLE.com.", "bücher.example", "93.184.216.34", "[2606:4700::1111]", "xn--a.com"]
    ),
    st.from_regex(r"[a-z0-9_.-]{1,20}", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.text(max_size=12),
)
PORTS = st.one_of(
    st.just(""), st.integers(0, 70_000).map(lambda port: f":{port}"), st.text("0123456789:x٨", max_size=6)
)
TAILS = st.one_of(st.just(""), st.text("/?#%&=;@\\[]:. äa1\t\r\n\u2028", max_size=20), st.text(max_size=20))
ODD = st.one_of(
    st.builds(
        lambda scheme, between, host, port, tail: scheme + between + host + port + tail,
        st.sampled_from(["http", "https", "HTTP", "ftp", ""]),
        st.sampled_from(["://", "://", "://", ":", "//", ":/", ":///", "://u:p@"]),
        HOSTS,
        PORTS,
        TAILS,
    ),
    st.text(max_size=60),
    st.text(st.characters(), max_size=30).map("https://".__add__),
)


def accepted(url: str) -> Target | None:
    try:
        return parse_target(url)
    except BadTarget:
        return None


@given(ODD)
@example("http://example.com/\ud800")
@example("http://[::1%]/")
@example("http://\u2100.com/")
def test_whatever_is_given_comes_out_as_a_target_or_with_a_reason(url: str) -> None:
    target = accepted(url)
    assert target is None or target.url.isascii()
    assert target is None or parse_target(target.url) == target


@given(ODD)
def test_every_reader_of_an_accepted_url_sees_the_same_host_and_port(url: str) -> None:
    target = accepted(url)
    if target is None:
        return
    plain, dialled = urlsplit(target.url), yarl.URL(target.url, encoded=True)
    assert (plain.scheme, plain.hostname, plain.port or target.port) == (target.scheme, target.host, target.port)
    assert (dialled.scheme, dialled.raw_host, dialled.port) == (target.scheme, target.host, target.port)
    assert (dialled.user, dialled.password, dialled.fragment) == (None, None, "")
    assert dialled.raw_path_qs == target.path
