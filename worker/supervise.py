"""Supervises one attempt: gives a child its assignment, stores its progress, enforces the limits, keeps its file."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from webapp import logs
from webapp.actions import attempts
from webapp.datasets import sources
from webapp.datasets.declaration import Dataset
from webapp.datasets.parameters import bind_values
from webapp.domain import limits
from webapp.domain.errors import AttemptFailed, ErrorCode, ExportError, export_error, in_words
from webapp.domain.exports import Export, ExportFile, FormatWarning, Phase
from webapp.domain.formats import API_DEFAULTS, content_type, file_extension, file_name, parse_options
from webapp.domain.sizes import told_size
from webapp.resources import Resources
from webapp.store.database import DATABASE_ERRORS
from webapp.store.exports import Progress
from worker.children import Child, Children
from worker.messages import Assignment, Failed, Finished, Message, Progressed

log = logging.getLogger(__name__)

TOLD_AFTER = 0.2
"""Seconds that putting a file into its place takes before pages are told of it."""
ASKED_FOR = 60.0
"""Seconds, at least, for which a database that is away is asked again, or told how an attempt ended; and until its
limit."""

Answer = TypeVar("Answer")


class Superseded(Exception):
    """The attempt was cancelled or given up while it ran: nothing more may be written for it."""


class OverTime(Exception):
    """The attempt ran into its execution limit."""


@dataclass(slots=True)
class Attempt:
    """What the supervisor knows of the attempt it watches."""

    export: Export
    dataset: Dataset
    url: str
    temporary: Path
    limit: timedelta
    ends_at: float
    """On the monotonic clock."""

    progress: Progress = field(default_factory=lambda: Progress(Phase.COUNTING, 0, None, 0))


async def run_attempt(resources: Resources, children: Children, export: Export) -> None:
    """From the claim to the end of the attempt, whichever end that is. Leaves no process and no temporary file."""
    with logs.about(export_id=export.id, attempt=export.attempt):
        await _run(resources, children, export)


async def _run(resources: Resources, children: Children, export: Export) -> None:
    catalog = resources.catalog
    dataset = catalog.datasets.get(export.dataset)
    if dataset is None:
        detail = f"there is no dataset named {export.dataset} any more"
        await attempts.fail(resources, export, export_error(ErrorCode.QUERY_ERROR, detail=detail))
        return
    limit = dataset.execution_limit or resources.settings.execution_limit
    attempt = Attempt(
        export,
        dataset,
        sources.for_attempt(
            catalog.source_of(dataset).url, f"{export.id}.{export.attempt}", seconds=limit.total_seconds()
        ),
        resources.storage.temporary(export.id, export.attempt),
        limit,
        time.monotonic() + limit.total_seconds(),
    )
    try:
        if await _until_answered(attempt, lambda: attempts.is_withheld(resources, export)):
            await _fail(resources, attempt, export_error(ErrorCode.NOT_GRANTED))
        else:
            await _supervise(resources, children, attempt)
    except Superseded:
        log.info("%s: attempt %d was cancelled or given up", export.id, export.attempt)
    except asyncio.CancelledError:
        log.info("%s: handed back, this worker is stopping", export.id)
        await asyncio.shield(attempts.hand_back(resources, export))
        raise
    finally:
        await resources.storage.delete_temporary(export.id, export.attempt)


async def _supervise(resources: Resources, children: Children, attempt: Attempt) -> None:
    async with _child(children, attempt) as child:
        try:
            await child.assign(_assignment(attempt))
            log.info("%s: child %d started on attempt %d", attempt.export.id, child.process.pid, attempt.export.attempt)
            outcome = await _watch(resources, child, attempt)
        except OverTime:
            await child.stop()
            await _time_out(resources, attempt)
            return
        except (Superseded, asyncio.CancelledError):
            await child.stop()
            raise
        except ConnectionError:
            outcome = None
    match outcome:
        case Finished():
            await _keep(resources, attempt, outcome)
        case Failed():
            await _fail(resources, attempt, _error(attempt, outcome))
        case _:
            await _fail(resources, attempt, export_error(ErrorCode.WORKER_LOST))


async def _fail(resources: Resources, attempt: Attempt, error: ExportError) -> None:
    await _until_answered(attempt, lambda: attempts.fail(resources, attempt.export, error))


async def _time_out(resources: Resources, attempt: Attempt) -> None:
    error = export_error(ErrorCode.TIMEOUT, limit=in_words(attempt.limit))
    await _until_answered(attempt, lambda: attempts.time_out(resources, attempt.export, error))


async def _until_answered(attempt: Attempt, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Again and again while the database is away: what was made is not lost because it restarts just now."""
    until = max(attempt.ends_at, time.monotonic() + ASKED_FOR)
    while True:
        try:
            return await ask()
        except DATABASE_ERRORS as error:
            if time.monotonic() >= until:
                raise
            log.warning("%s: the database does not answer yet (%s)", attempt.export.id, type(error).__name__)
            await asyncio.sleep(limits.HEARTBEAT_EVERY)


@contextlib.asynccontextmanager
async def _child(children: Children, attempt: Attempt) -> AsyncGenerator[Child]:
    """A child that had to be killed could not end its query itself."""
    child: Child | None = None
    try:
        async with children.child(sources.scheme_of(attempt.url), attempt.export.format) as child:
            yield child
    finally:
        if child is not None and child.process.returncode != 0:
            await asyncio.to_thread(sources.end_query, attempt.url)


async def _watch(resources: Resources, child: Child, attempt: Attempt) -> Message | None:
    """Until the child says how it ended, or ends without a word (None). Beats the heart once a second."""
    beat_at = 0.0
    receiving = asyncio.create_task(child.receive())
    try:
        while True:
            now = time.monotonic()
            if now >= attempt.ends_at:
                raise OverTime
            if now >= beat_at:
                beat_at = now + limits.HEARTBEAT_EVERY
                await _beat(resources, attempt)
            await asyncio.wait({receiving}, timeout=max(0.0, min(beat_at, attempt.ends_at) - now))
            if receiving.done():
                message = receiving.result()
                if not isinstance(message, Progressed):
                    return message
                attempt.progress = _advance(attempt.progress, message)
                receiving = asyncio.create_task(child.receive())
    finally:
        receiving.cancel()


def _advance(before: Progress, message: Progressed) -> Progress:
    """Rows and bytes only grow, whatever a child says."""
    return Progress(
        Phase(message.phase),
        max(before.rows_done, message.rows_done),
        message.rows_total if message.rows_total is not None else before.rows_total,
        max(before.bytes, message.bytes),
    )


async def _beat(resources: Resources, attempt: Attempt) -> None:
    """The work goes on while the database is away. Whether the attempt was given up meanwhile, it tells afterwards."""
    try:
        is_ours = await attempts.report_progress(resources, attempt.export, attempt.progress)
    except DATABASE_ERRORS as error:
        log.warning("%s: no sign of life could be given (%s)", attempt.export.id, type(error).__name__)
        return
    if not is_ours:
        raise Superseded
    await attempts.hint_progress(resources, attempt.export)


async def _keep(resources: Resources, attempt: Attempt, finished: Finished) -> None:
    """The file goes into its place first; it is only spoken of when the status change is committed."""
    export = attempt.export
    file = _described(resources, attempt, finished)
    try:
        await _store(resources, attempt, file)
    except AttemptFailed as failure:
        await _fail(resources, attempt, export_error(failure.code, **failure.details))
        return
    except OverTime:
        await _time_out(resources, attempt)
        return
    warnings = tuple(FormatWarning(*warning) for warning in finished.warnings)
    if await _until_answered(attempt, lambda: attempts.finish(resources, export, file, warnings)) is None:
        await resources.storage.delete(file.key)


async def _store(resources: Resources, attempt: Attempt, file: ExportFile) -> None:
    """Beats the heart for as long as it takes. Raises AttemptFailed, OverTime and Superseded; then nothing is kept."""
    attempt.progress = replace(attempt.progress, phase=Phase.UPLOADING, bytes=file.size)
    keeping = asyncio.create_task(resources.storage.keep(attempt.temporary, file))
    wait = TOLD_AFTER
    try:
        while not (await asyncio.wait({keeping}, timeout=wait))[0]:
            if time.monotonic() >= attempt.ends_at:
                raise OverTime
            await _beat(resources, attempt)
            wait = limits.HEARTBEAT_EVERY
        keeping.result()
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def _described(resources: Resources, attempt: Attempt, finished: Finished) -> ExportFile:
    export = attempt.export
    options = parse_options(export.options, export.format, defaults=API_DEFAULTS)
    return ExportFile(
        key=resources.storage.key(export.id, export.attempt, file_extension(export.format, options)),
        name=file_name(attempt.dataset.title, export.created_at, export.format, options),
        size=finished.size,
        rows=finished.rows,
        sha256=finished.sha256,
        content_type=content_type(export.format, options),
        expires_at=export.created_at,
    )


def _assignment(attempt: Attempt) -> Assignment:
    export, dataset = attempt.export, attempt.dataset
    return Assignment(
        export_id=export.id,
        attempt=export.attempt,
        dataset=dataset.name,
        title=dataset.title,
        url=attempt.url,
        sql=dataset.sql,
        params=bind_values(dataset, export.params),
        shown_params=dict(export.params),
        format=export.format,
        options=dict(export.options),
        path=str(attempt.temporary),
        row_limit=dataset.row_limit,
        max_bytes=dataset.max_bytes,
        memory_mib=dataset.memory_mib,
    )


def _error(attempt: Attempt, failed: Failed) -> ExportError:
    """Whoever ran out of memory does not know as it was declared how much there was."""
    details = failed.details
    if failed.code == ErrorCode.OUT_OF_MEMORY:
        details = details | {"limit": told_size(attempt.dataset.memory_bytes)}
    return export_error(ErrorCode(failed.code), **details)
