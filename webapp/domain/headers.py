"""Names of headers: which are ours or the connection's, and whose values are no secret."""

from __future__ import annotations

RESERVED = frozenset(
    {"x-signature", "host", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"}
    | {"accept", "accept-encoding", "user-agent"}
)
RESERVED_STARTS = ("webhook-", "content-", "proxy-")
OF_PROXIES = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "x-request-id"}
)
CREDENTIALS = frozenset({"authorization", "proxy-authorization"})


def is_reserved(name: str) -> bool:
    """Whether a header is ours or the connection's: no custom one may have its name.

    Nor that name with underscores: CGI and what grew out of it cannot tell the two apart.
    """
    plain = name.lower().replace("_", "-")
    return plain in RESERVED or plain.startswith(RESERVED_STARTS)


def is_open(name: str) -> bool:
    """Whether the value of a header that came in may be kept and shown. Any other may be a custom one, and so a secret:
    also of settings that were only tried out, which nobody knows by then."""
    return name.lower() not in CREDENTIALS and (is_reserved(name) or name.lower() in OF_PROXIES)
