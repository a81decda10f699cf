"""Settings: the only reader of the environment. All mistakes are reported at once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from webapp.domain.addresses import AllowedTargets
from webapp.domain.alerts import RULES, Alert, Rule, Unit
from webapp.domain.emails import is_address
from webapp.domain.sentences import TAGS
from webapp.domain.sink_targets import BadSinkTarget, SinkTarget, parse_sink

PREFIX = "EXPORTDESK_"
SOCKET_PATH_BYTES = 100
SHORTEST_KEY = 16
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class LiveStrategy(StrEnum):
    POLL_THEN_SSE = "poll-then-sse"
    PUSH_THEN_POLL = "push-then-poll"
    POLL_ONLY = "poll-only"


class Downloads(StrEnum):
    """How the files of a bucket reach people: by a signed link to the bucket, or through the web process."""

    LINK = "link"
    RELAY = "relay"


class BadSettings(Exception):
    """One line per setting that cannot be used."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class OpenIDSettings:
    """`title` is what the button says. `groups_claim` empty: groups and roles are the desk's own business."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False, default="")
    scopes: str = "openid profile email"
    title: str = ""
    name_claim: str = "preferred_username"
    groups_claim: str = ""
    admin_groups: tuple[str, ...] = ()


class StartTLS(StrEnum):
    """Whether a connection that begins in plain text goes on encrypted: it must, it does where it can, it does not."""

    REQUIRED = "required"
    OFFERED = "offered"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    """The server that takes our mails. `is_tls`: encrypted from its first byte."""

    host: str
    port: int
    sender: str
    is_tls: bool = False
    start_tls: StartTLS = StartTLS.OFFERED
    user: str = ""
    password: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that differs between one set-up and another."""

    data_dir: Path
    database_url: str
    redis_url: str | None
    storage_url: str
    config: Path | None
    secret_keys: tuple[str, ...]
    """The first seals secrets; all of them open what was sealed before a rotation."""

    base_url: str
    host: str
    port: int
    live_strategy: LiveStrategy
    file_retention: timedelta
    event_retention: timedelta
    execution_limit: timedelta
    log_format: str
    language: str
    """What people are told things in whose browser asks for none that there is."""

    worker_slots: int
    max_running_per_user: int
    max_active_per_user: int
    stream_heartbeat: timedelta
    callback_allow_private: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose X-Forwarded-For and X-Forwarded-Proto are believed."""

    proxy_user_header: str = ""
    """In which a trusted proxy says who has signed in there; empty: in none."""

    openid: OpenIDSettings | None = None
    downloads: Downloads = Downloads.LINK
    s3_credentials: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those that files were named for; all others are read from the environment by the client of the bucket."""

    s3_allow_http: bool = False
    event_sink: SinkTarget | None = None
    """Where the change log goes."""
    alerts: Mapping[Alert, float] = field(default_factory=lambda: {alert: rule.usual for alert, rule in RULES.items()})
    """Thresholds, in the unit of the rule; an alert that is switched off has none."""

    smtp: SmtpSettings | None = None
    has_base_url: bool = True
    """Whether BASE_URL was given: what is mailed leads there, so it is not guessed."""

    worker_metrics_port: int = 0
    """Where workers answer `/metrics`, the first of a host; 0 for nowhere."""

    def __repr__(self) -> str:
        return f"Settings(data_dir={str(self.data_dir)!r}, host={self.host!r}, port={self.port})"

    @property
    def mail(self) -> SmtpSettings | None:
        """None while nothing is mailed: without a server, or an address of the desk that a mail can lead to."""
        return self.smtp if self.has_base_url else None

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def catalog_file(self) -> Path:
        """Where sources and datasets stand: CONFIG, or else the file that admins' forms make in the data folder."""
        return self.config or self.data_dir / "exportdesk.toml"

    @property
    def broker_socket(self) -> Path:
        """Where `up` puts the embedded broker's socket when no REDIS_URL is given.

        The kernel cuts a socket's path at about a hundred bytes; below a longer data folder it moves to a private
        folder among the temporary files, whose name a worker that was started by hand finds the same way.
        """
        path = self.data_dir / "run" / "redis.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            return path
        digest = hashlib.sha256(os.fsencode(self.data_dir.resolve())).hexdigest()[:16]
        return Path(tempfile.gettempdir(), f"exportdesk-{os.getuid()}-{digest}", "redis.sock")


def parse_duration(text: str) -> timedelta:
    """`90s`, `30m`, `12h`, `7d`, `250ms`."""
    match = re.fullmatch(r"([0-9]{1,12})\s*(ms|s|m|h|d)", text.strip())
    if match is None:
        raise ValueError("write a number and a unit, such as 90s, 30m, 12h or 7d")
    seconds = int(match[1]) * UNITS[match[2]]
    if not 0 < seconds <= 3650 * 86400:
        raise ValueError("must be more than nothing and less than ten years")
    return timedelta(seconds=seconds)


class _Reader:
    """Takes settings out of an environment and collects what is wrong with them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.problems: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """The variable, or the content of the file that `NAME_FILE` points to."""
        return self.environ.get(PREFIX + name) or self.file(PREFIX + name) or default

    def file(self, key: str) -> str:
        """The content of the file that `key` with `_FILE` points to; empty when there is none."""
        path = self.environ.get(f"{key}_FILE", "")
        try:
            return Path(path).read_text(encoding="utf-8").strip() if path else ""
        except OSError as error:
            self.problems.append(f"{key}_FILE: cannot read {path} ({error.strerror})")
            return ""

    def parts(self, name: str) -> tuple[str, ...]:
        """Parts between commas."""
        return tuple(filter(None, (part.strip() for part in self.text(name).split(","))))

    def duration(self, name: str, default: str) -> timedelta:
        try:
            return parse_duration(self.text(name, default))
        except ValueError as error:
            self.problems.append(f"{PREFIX}{name}: {error}")
            return parse_duration(default)

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        text = self.text(name, str(default))
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        self.problems.append(f"{PREFIX}{name}: must be a whole number from {low} to {high}, not {text!r}")
        return default

    def choice(self, name: str, default: str, choices: list[str]) -> str:
        text = self.text(name, default)
        if text in choices:
            return text
        self.problems.append(f"{PREFIX}{name}: must be one of {', '.join(choices)}, not {text!r}")
        return default

    def url(self, name: str, default: str, schemes: tuple[str, ...]) -> str:
        """Never quotes the value: it may hold a password."""
        text = self.text(name, default)
        if urlsplit(text).scheme in schemes:
            return text
        self.problems.append(f"{PREFIX}{name}: must start with {' or '.join(s + '://' for s in schemes)}")
        return default


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Raises BadSettings with every problem found. Makes the data folder and the secret key when they are missing."""
    reader = _Reader(os.environ if environ is None else environ)
    data_dir = Path(reader.text("DATA_DIR", "data")).expanduser().absolute()
    host = reader.text("HOST", "127.0.0.1")
    port = reader.integer("PORT", 8000, low=1, high=65535)
    config = reader.text("CONFIG")
    settings = Settings(
        data_dir=data_dir,
        database_url=reader.url(
            "DATABASE_URL", f"sqlite:///{quote(str(data_dir))}/exportdesk.db", ("sqlite", "postgresql", "postgres")
        ),
        redis_url=reader.url("REDIS_URL", "redis://", ("redis", "rediss", "unix"))
        if reader.text("REDIS_URL")
        else None,
        storage_url=_storage_url(reader, f"file://{quote(str(data_dir))}/files"),
        config=Path(config).absolute() if config else None,
        secret_keys=_secret_keys(reader, data_dir),
        base_url=_base_url(reader, host, port),
        host=host,
        port=port,
        live_strategy=LiveStrategy(reader.choice("LIVE_STRATEGY", "poll-then-sse", [s.value for s in LiveStrategy])),
        file_retention=reader.duration("FILE_RETENTION", "7d"),
        event_retention=reader.duration("EVENT_RETENTION", "30d"),
        execution_limit=reader.duration("EXECUTION_LIMIT", "30m"),
        log_format=reader.choice("LOG_FORMAT", "text", ["text", "json"]),
        language=reader.choice("LANGUAGE", TAGS[0], list(TAGS)),
        worker_slots=reader.integer("WORKER_SLOTS", 3, low=1, high=64),
        max_running_per_user=reader.integer("MAX_RUNNING_PER_USER", 2, low=1, high=64),
        max_active_per_user=reader.integer("MAX_ACTIVE_PER_USER", 20, low=1, high=10_000),
        stream_heartbeat=reader.duration("STREAM_HEARTBEAT", "15s"),
        callback_allow_private=_allowed_targets(reader),
        trusted_proxies=_networks(reader, "TRUSTED_PROXIES"),
        proxy_user_header=_proxy_user_header(reader),
        openid=_openid(reader),
        downloads=Downloads(reader.choice("DOWNLOADS", "link", [d.value for d in Downloads])),
        s3_credentials=_s3_credentials(reader),
        event_sink=_event_sink(reader),
        smtp=_smtp(reader),
        has_base_url=bool(reader.text("BASE_URL")),
        worker_metrics_port=reader.integer("WORKER_METRICS_PORT", 0, low=0, high=65535),
        alerts=_alerts(reader),
        s3_allow_http=reader.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true"},
    )
    if config and not Path(config).is_file():
        reader.problems.append(f"{PREFIX}CONFIG: there is no file {config}")
    if reader.problems:
        raise BadSettings(reader.problems)
    return settings


@dataclass(frozen=True, slots=True)
class DeskAccess:
    """How a client reaches a desk. `token` is empty when there is none."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"DeskAccess(url={self.url!r})"


def read_desk_access(environ: Mapping[str, str] | None = None) -> DeskAccess:
    """Raises BadSettings. Makes nothing: a client has no data folder."""
    reader = _Reader(os.environ if environ is None else environ)
    host, port = reader.text("HOST", "127.0.0.1"), reader.integer("PORT", 8000, low=1, high=65535)
    access = DeskAccess(reader.text("URL") or _base_url(reader, host, port), reader.text("TOKEN"))
    if reader.problems:
        raise BadSettings(reader.problems)
    return access


def _base_url(reader: _Reader, host: str, port: int) -> str:
    shown_host = "localhost" if host in {"0.0.0.0", "::", "127.0.0.1"} else host  # noqa: S104
    return reader.url("BASE_URL", f"http://{shown_host}:{port}", ("http", "https")).rstrip("/")


def _storage_url(reader: _Reader, default: str) -> str:
    url = reader.url("STORAGE_URL", default, ("file", "s3"))
    parts = urlsplit(url)
    if parts.scheme == "s3" and "@" in parts.netloc:
        reader.problems.append(
            f"{PREFIX}STORAGE_URL: credentials belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    elif parts.scheme == "s3" and not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc):
        reader.problems.append(f"{PREFIX}STORAGE_URL: write it as s3://bucket/prefix")
    return url


def _s3_credentials(reader: _Reader) -> Mapping[str, str]:
    """What AWS_…_FILE points to; the variables themselves win."""
    names = ("access_key_id", "secret_access_key", "session_token")
    keys = {name: f"AWS_{name.upper()}" for name in names}
    return {name: value for name, key in keys.items() if not reader.environ.get(key) and (value := reader.file(key))}


def _alerts(reader: _Reader) -> Mapping[Alert, float]:
    given = {alert: (f"ALERT_{alert.upper()}", rule) for alert, rule in RULES.items()}
    return {alert: _threshold(reader, *one) for alert, one in given.items() if reader.text(one[0]).lower() != "off"}


def _threshold(reader: _Reader, name: str, rule: Rule) -> float:
    """A duration for times; a whole number for counts and for shares in percent."""
    if rule.unit is Unit.SECONDS:
        return reader.duration(name, f"{rule.usual:.0f}s").total_seconds()
    low, high = (1, 99) if rule.unit is Unit.PERCENT else (0 if not rule.is_floor else 1, 1_000_000)
    return reader.integer(name, int(rule.usual), low=low, high=high)


def _networks(reader: _Reader, name: str) -> tuple[str, ...]:
    """Addresses and CIDRs, separated by commas."""
    given = reader.parts(name)
    for part in given:
        try:
            ip_network(part)
        except ValueError:
            reader.problems.append(f"{PREFIX}{name}: {part} is neither an address nor a network such as 10.1.0.0/16")
    return given


def _proxy_user_header(reader: _Reader) -> str:
    header = reader.text("PROXY_USER_HEADER")
    if header and not re.fullmatch(r"[A-Za-z0-9-]{1,100}", header):
        reader.problems.append(f"{PREFIX}PROXY_USER_HEADER: write the name of a header, such as X-Forwarded-User")
    if header and not reader.text("TRUSTED_PROXIES"):
        reader.problems.append(f"{PREFIX}PROXY_USER_HEADER: needs TRUSTED_PROXIES, which says whom to believe")
    return header


def _openid(reader: _Reader) -> OpenIDSettings | None:
    """None without an issuer."""
    if not reader.text("OIDC_ISSUER"):
        return None
    if not reader.text("OIDC_CLIENT_ID"):
        reader.problems.append(f"{PREFIX}OIDC_CLIENT_ID: the provider of OIDC_ISSUER knows the desk by it")
    return OpenIDSettings(
        issuer=reader.url("OIDC_ISSUER", "", ("https", "http")),
        client_id=reader.text("OIDC_CLIENT_ID"),
        client_secret=reader.text("OIDC_CLIENT_SECRET"),
        scopes=reader.text("OIDC_SCOPES", "openid profile email"),
        title=reader.text("OIDC_TITLE"),
        name_claim=reader.text("OIDC_NAME_CLAIM", "preferred_username"),
        groups_claim=reader.text("OIDC_GROUPS_CLAIM"),
        admin_groups=reader.parts("OIDC_ADMIN_GROUPS"),
    )


def _allowed_targets(reader: _Reader) -> tuple[str, ...]:
    """CIDRs and `host:port` pairs, separated by commas."""
    given = reader.parts("CALLBACK_ALLOW_PRIVATE")
    for part in given:
        try:
            AllowedTargets.parse([part])
        except ValueError as error:
            reader.problems.append(f"{PREFIX}CALLBACK_ALLOW_PRIVATE: {error}")
    return given


SMTP_EXAMPLE = "write it as smtp://user:password@host:587 or smtps://user:password@host:465"


def _smtp(reader: _Reader) -> SmtpSettings | None:
    """None without a server. Never quotes the URL: it may hold a password."""
    text, sender = reader.text("SMTP_URL"), reader.text("SMTP_FROM")
    if not text:
        if sender:
            reader.problems.append(f"{PREFIX}SMTP_FROM: needs SMTP_URL, which says where mails go")
        return None
    if not is_address(sender):
        reader.problems.append(f"{PREFIX}SMTP_FROM: write the address that mails come from, such as desk@example.org")
    try:
        url = urlsplit(text)
        is_tls, host, port = url.scheme == "smtps", url.hostname, url.port
        is_right = url.scheme in {"smtp", "smtps"} and host and url.path in {"", "/"} and not url.fragment and port != 0
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError:
        is_right, is_tls, host, port, url, options = False, False, None, None, urlsplit(""), dict[str, str]()
    if not is_right or not host:
        reader.problems.append(f"{PREFIX}SMTP_URL: {SMTP_EXAMPLE}")
        return None
    user, password = unquote(url.username or ""), unquote(url.password or "")
    usual = StartTLS.REQUIRED if password else StartTLS.OFFERED
    start_tls = options.pop("starttls", "never" if is_tls else usual.value)
    if options or start_tls not in list(StartTLS) or (is_tls and start_tls != "never"):
        choices = ", ".join(StartTLS)
        reader.problems.append(f"{PREFIX}SMTP_URL: after ? only starttls, one of {choices}; smtps:// has no use for it")
        return None
    return SmtpSettings(host, port or (465 if is_tls else 587), sender, is_tls, StartTLS(start_tls), user, password)


def _event_sink(reader: _Reader) -> SinkTarget | None:
    """Never quotes the value: it may hold a password."""
    url = reader.text("EVENT_SINK_URL")
    try:
        target = parse_sink(url) if url else None
    except BadSinkTarget as error:
        reader.problems += [f"{PREFIX}EVENT_SINK_URL: {problem}" for problem in error.problems]
        return None
    if target and target.ca and not Path(target.ca).is_file():
        reader.problems.append(f"{PREFIX}EVENT_SINK_URL: there is no file {target.ca}")
    return target


def _secret_keys(reader: _Reader, data_dir: Path) -> tuple[str, ...]:
    """The given keys, the newest first, or those in the data folder: one is made there, readable by its owner alone."""
    keys = tuple((reader.text("SECRET_KEY") or _kept_keys(reader, data_dir)).split())
    if any(len(key) < SHORTEST_KEY for key in keys):
        reader.problems.append(f"{PREFIX}SECRET_KEY: must have at least {SHORTEST_KEY} characters")
    return keys


def _kept_keys(reader: _Reader, data_dir: Path) -> str:
    path = data_dir / "secret.key"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(new_secret_key() + "\n")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reader.problems.append(f"{PREFIX}DATA_DIR: cannot write to {data_dir} ({error.strerror})")
        return ""


def new_secret_key() -> str:
    return secrets.token_urlsafe(48)


def source_environment() -> Mapping[str, str]:
    """Where `${NAME}` in the configuration file is looked up: credentials of sources come from the environment."""
    return os.environ


def colour_is_unwanted() -> bool:
    """Whether NO_COLOR is set (https://no-color.org) or the terminal has no colours."""
    return bool(os.environ.get("NO_COLOR")) or terminal_is_dumb()


def terminal_is_dumb() -> bool:
    """Whether the terminal cannot rewrite a line."""
    return os.environ.get("TERM") == "dumb"
