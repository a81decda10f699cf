"""`exportdesk doctor`: looks at each part of this set-up and says what to do about what is wrong."""

from __future__ import annotations

import asyncio
import shutil
import stat
import sys
from collections.abc import Awaitable, Callable
from importlib import resources as files
from pathlib import Path
from typing import Any

import aiosmtplib

from webapp import mail, queue, sinks, storage
from webapp.actions import change_log
from webapp.commands.database import opened_store
from webapp.commands.datasets import answer_problems
from webapp.commands.doctor_clocks import clocks
from webapp.commands.doctor_stuck import stuck_work
from webapp.commands.failures import EXIT_PROBLEM, explain
from webapp.commands.key import count_unsealable
from webapp.commands.terminal import coloured, say
from webapp.commands.unwell import Doubtful, Unwell
from webapp.queue import QueueName
from webapp.resources import broker_url, is_demo, open_catalog, open_provider, open_resources
from webapp.sealing import Sealer
from webapp.settings import BadSettings, Settings, read_settings
from webapp.store.schema import OutdatedSchema, head_version, require_current_schema
from webapp.web.words import counted, duration

LEAST_FREE_BYTES = 1024**3
LONGEST_LAG = 300.0
"""Seconds that an event may wait for the sink."""
MAIL_SECONDS = 10.0
HEALTH_KEY = "{queue}:health-check"
FRONT_END = ("htmx.min.js", "hx-sse.min.js")
Check = Callable[[Settings], Awaitable[str]]


def run_doctor() -> int:
    """Prints one line per check; 1 when any has a problem. A warning is none."""
    _tell("Python", ".".join(map(str, sys.version_info[:3])))
    try:
        settings = read_settings()
    except BadSettings as error:
        for problem in error.problems:
            _tell("settings", problem, mend="correct the environment variable")
        return EXIT_PROBLEM
    _tell("settings", "all can be used")
    return 0 if asyncio.run(_examine(settings)) else EXIT_PROBLEM


async def _examine(settings: Settings) -> bool:
    unwell: set[str] = set()
    for name, check in CHECKS.items():
        try:
            if "database" in unwell and name in NEED_DATABASE:
                raise Unwell("cannot be told without the database", "mend the database first")
            _tell(name, await check(settings))
        except Doubtful as error:
            _tell(name, str(error), mend=error.mend, is_warning=True)
        except Unwell as error:
            unwell.add(name)
            _tell(name, str(error), mend=error.mend)
        except Exception as error:
            unwell.add(name)
            lines, _ = explain(error) or ([f"{type(error).__name__}: {error}"], EXIT_PROBLEM)
            _tell(name, " ".join(lines), mend=MENDS.get(name, "look into the logs"))
    return not unwell


def _tell(name: str, text: str, *, mend: str | None = None, is_warning: bool = False) -> None:
    bad = coloured("warning", "yellow") if is_warning else coloured("problem", "red")
    verdict = coloured("ok     ", "green") if mend is None else bad
    say(f"{verdict}  {name:<16}  {text}" + (f" → {mend}" if mend else ""))


async def data_folder(settings: Settings) -> str:
    try:
        trial = settings.data_dir / ".doctor"
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise Unwell(
            f"{settings.data_dir} cannot be written ({error.strerror})", "give this user the folder, or another one"
        ) from None
    return f"{settings.data_dir} can be written, {_free(settings.data_dir)} free"


def _free(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise Unwell(f"{folder} has {free // 1024**2} MiB left", "make room: exports are written there")
    return f"{free / 1024**3:.1f} GiB"


async def secret_key(settings: Settings) -> str:
    path = settings.data_dir / "secret.key"
    if not path.exists():
        return "given by EXPORTDESK_SECRET_KEY"
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise Unwell(f"{path} can be read by others (mode {mode:04o})", f"chmod 600 {path}")
    return "readable by its owner alone"


async def front_end(_settings: Settings) -> str:
    """In the wheel they are part of the package; in a checkout they lie beside it."""
    package = Path(str(files.files("webapp")))
    folders = (package / "static" / "vendor", package.parent / "static" / "vendor")
    if not any(all((folder / name).is_file() for name in FRONT_END) for folder in folders):
        raise Unwell(
            "htmx and its SSE extension are not installed", "pip install . builds them; pages work, but not live"
        )
    return "htmx and its SSE extension are installed"


async def database_schema(settings: Settings) -> str:
    try:
        await require_current_schema(settings.database_url)
    except OutdatedSchema as error:
        raise Unwell(str(error).partition(" Run:")[0], "exportdesk migrate") from None
    return f"at version {head_version()}"


async def sealed_secrets(settings: Settings) -> str:
    """Whether the keys that are there open what is sealed in the database."""
    async with opened_store(settings.database_url) as store:
        locked = await count_unsealable(store, Sealer(*settings.secret_keys))
    if locked:
        raise Unwell(
            f"{counted(locked, 'endpoint')} sealed under a key that is not there",
            "add that key behind the one in use (separated by a space), or delete the endpoint and register it anew",
        )
    if len(settings.secret_keys) > 1:
        return "all of them open; a rotation is under way, end it with: exportdesk key finish"
    return "all of them open"


async def broker(settings: Settings) -> str:
    redis: Any = queue.connect(broker_url(settings))
    try:
        await redis.ping()
    except queue.QUEUE_ERRORS as error:
        raise Unwell(
            f"does not answer ({type(error).__name__})", "start exportdesk up, or check EXPORTDESK_REDIS_URL"
        ) from None
    finally:
        await redis.aclose(close_connection_pool=True)
    return "answers"


async def workers(settings: Settings) -> str:
    redis: Any = queue.connect(broker_url(settings))
    try:
        missing = [name.name.lower() for name in QueueName if not await redis.exists(HEALTH_KEY.format(queue=name))]
    except queue.QUEUE_ERRORS:
        raise Unwell("cannot be seen without the broker", "mend the broker first") from None
    finally:
        await redis.aclose(close_connection_pool=True)
    if missing:
        raise Unwell(f"none is alive for: {', '.join(missing)}", f"start one: exportdesk worker {missing[0]}")
    return "exports and callbacks are alive"


async def finished_files(settings: Settings) -> str:
    try:
        files = storage.open_storage(settings)
        told = await files.check()
    except storage.StorageUnusable as error:
        raise Unwell(str(error), error.mend) from None
    return f"{told}, {_free(files.folder)} free" if isinstance(files, storage.LocalStorage) else told


async def event_sink(settings: Settings) -> str:
    """Whether it can be written to, and whether it is."""
    if settings.event_sink is None:
        return "the change log goes nowhere else"
    try:
        sink = sinks.open_sink(settings.event_sink)
        try:
            told = await sink.check()
        finally:
            await sink.close()
    except sinks.SinkUnusable as error:
        raise Unwell(str(error), error.mend) from None
    async with open_resources(settings) as resources, resources.store.connection():
        lag = await change_log.lag(resources, await resources.store.now())
    if lag and lag.seconds > LONGEST_LAG:
        raise Unwell(
            f"{told}, but it was not sent {counted(lag.events, 'event')}, the oldest for {duration(lag.seconds)}",
            "exportdesk worker callbacks sends them, and its log says what keeps it",
        )
    return told


async def mail_server(settings: Settings) -> str:
    """Whether it lets us in; nothing is sent."""
    smtp = settings.smtp
    if smtp is None:
        return "no mail is sent; EXPORTDESK_SMTP_URL and SMTP_FROM turn it on"
    if not settings.has_base_url:
        raise Unwell("no mail is sent: nobody knows where its links are to lead", "set EXPORTDESK_BASE_URL")
    try:
        is_encrypted = await mail.greet(smtp, time_limit=MAIL_SECONDS)
    except mail.MAIL_ERRORS as error:
        raise Unwell(f"{smtp.host}:{smtp.port} does not let us in: {mail.reason(error)}", _mail_mend(error)) from None
    return f"{smtp.host}:{smtp.port} answers{', encrypted' if is_encrypted else ', in plain text'}"


def _mail_mend(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return "check user and password in EXPORTDESK_SMTP_URL; special characters in them are %-encoded"
    if isinstance(error, mail.NotEncrypted):
        return "?starttls=never after EXPORTDESK_SMTP_URL is for a server of one's own that cannot encrypt"
    if mail.is_about_encryption(error):
        return (
            "name the host in EXPORTDESK_SMTP_URL as its certificate does; smtps:// encrypts from the first byte and "
            "smtp:// later; SSL_CERT_FILE names a file with the authorities to trust"
        )
    if isinstance(error, aiosmtplib.SMTPConnectError | OSError | TimeoutError):
        return "check host, port and scheme in EXPORTDESK_SMTP_URL, and that a firewall lets us there"
    return "check EXPORTDESK_SMTP_URL, and what the server's own log says"


async def sign_in(settings: Settings) -> str:
    """Whether the provider tells what signing in needs; its secret is only tried by who signs in."""
    provider = open_provider(settings)
    if provider is None:
        proxy = f", or by {settings.proxy_user_header} from a trusted proxy" if settings.proxy_user_header else ""
        return f"by password and one-time link{proxy}"
    from webapp.openid import OpenIDFailed

    try:
        await provider.check()
    except OpenIDFailed as error:
        raise Unwell(f"OpenID: {error}", "check EXPORTDESK_OIDC_ISSUER, and that a firewall lets us there") from None
    if not settings.has_base_url:
        raise Unwell(
            f"OpenID: {provider.settings.issuer} answers, but nobody knows where it is to lead people back to",
            "set EXPORTDESK_BASE_URL",
        )
    return f"OpenID: {provider.settings.issuer} answers; people come back to {provider.redirect_uri}"


async def datasets(settings: Settings) -> str:
    catalog = await asyncio.to_thread(open_catalog, settings)
    problems = await asyncio.to_thread(answer_problems, catalog, settings)
    if problems and is_demo(settings):
        raise Unwell("the demo data is not there, or not whole", "exportdesk up makes it when demo.db is missing")
    if problems:
        raise Unwell(problems[0].message, f"exportdesk datasets check lists all {len(problems)}")
    return f"{counted(len(catalog.datasets), 'dataset')}, all answer"


CHECKS: dict[str, Check] = {
    "data folder": data_folder,
    "secret key": secret_key,
    "front end": front_end,
    "database": database_schema,
    "sealed secrets": sealed_secrets,
    "broker": broker,
    "clocks": clocks,
    "workers": workers,
    "finished files": finished_files,
    "event sink": event_sink,
    "mail server": mail_server,
    "sign-in": sign_in,
    "datasets": datasets,
    "stuck work": stuck_work,
}

NEED_DATABASE = frozenset({"clocks", "sealed secrets", "event sink", "stuck work"})
MENDS = {
    "database": "start it, or check EXPORTDESK_DATABASE_URL",
    "datasets": "exportdesk datasets check",
    "stuck work": "mend the datasets and the storage first",
    "secret key": "check EXPORTDESK_DATA_DIR",
}
