"""`exportdesk export`: orders an export over HTTP, waits for it by polling, and saves a file that is right."""

from __future__ import annotations

import csv
import os
import re
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from webapp.client import Answer, Client, Damaged, Export, NotADesk, Problem, Unreachable
from webapp.commands.export_codes import EXIT_ACCESS, EXIT_ENDED, EXIT_FAILED, EXIT_FILE, EXIT_INTERRUPTED
from webapp.commands.failures import EXIT_USE, Failure
from webapp.commands.patience import Patience
from webapp.commands.progress import Display
from webapp.commands.saving import Output, save
from webapp.settings import read_desk_access
from webapp.web.words import counted, size

LONG_POLL = 20.0
LIVELY_POLL, CALM_POLL = 1.0, 3.0
"""Seconds between two looks at rows that move, on a terminal: during the first ten, and then."""
WAITED = 0.9
"""The share of a long poll that has to pass for it to count as one: some proxy or desk may answer at once."""
MAKE_A_TOKEN = "Make one where the desk runs: exportdesk token create --user NAME --name TEXT"  # noqa: S105
EXPORT_ID = re.compile(r"exp_[0-9a-z]+")
COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}
FORMATS = ("csv", "xlsx", "jsonl", "parquet")
NAMES_SHOWN = 20
WORDS = {"true": True, "false": False, "tab": "\t", "\\t": "\t"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for at the command line."""

    dataset: str | None
    saved: str | None
    again: str | None
    name: str | None
    note: str | None
    format: str | None
    params: Sequence[str]
    options: Sequence[str]
    columns: str | None
    wait: bool
    output: str | None
    force: bool
    quiet: bool
    url: str | None
    token: str | None

    @property
    def waits(self) -> bool:
        return self.wait or bool(self.output or self.again)


def run_export(wanted: Wanted) -> int:
    """The exit code. Raises Failure with one of them."""
    _check_use(wanted)
    client = _client(wanted)
    display = Display(sys.stderr, is_quiet=wanted.quiet)
    run = Run(wanted, client, display)
    try:
        return run.to_the_end()
    except (Problem, Unreachable, NotADesk, Damaged) as error:
        display.clear()
        raise run.explained(error) from None
    except Failure as failure:
        display.clear()
        if failure.code == EXIT_FILE and run.export_id:
            raise Failure(f"{failure}\n{run.way_on()}", failure.code) from None
        raise


def _check_use(wanted: Wanted) -> None:
    if sum(map(bool, (wanted.dataset, wanted.saved, wanted.again))) != 1:
        raise Failure("Name a dataset to export, a saved order with --saved, or an export with --again.")
    flag, kind = ("--saved", "order as it was saved") if wanted.saved else ("--again", "export as it was ordered")
    of_a_dataset = (wanted.format, wanted.name, wanted.note, wanted.columns)
    if not wanted.dataset and (wanted.params or wanted.options or any(each is not None for each in of_a_dataset)):
        flags = "--format, --param, --option, --columns, --name and --note"
        raise Failure(f"{flag} takes an {kind}: leave out {flags}.")
    if wanted.again and not EXPORT_ID.fullmatch(wanted.again):
        raise Failure("--again takes the id of an export, such as exp_01m8mtv6eyecta8qms1nden14k.")
    if wanted.output == "":
        raise Failure("-o needs the name of a file or folder, or - for stdout.")
    named = (wanted.dataset, wanted.saved, wanted.name, wanted.note, wanted.format, wanted.columns, wanted.url)
    texts = [*named, *wanted.params, *wanted.options]
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text or ""):
        raise Failure("The arguments are not valid UTF-8.")


def _client(wanted: Wanted) -> Client:
    access = read_desk_access()
    token = wanted.token or access.token
    if not token:
        raise Failure(f"A token is needed: set EXPORTDESK_TOKEN or EXPORTDESK_TOKEN_FILE. {MAKE_A_TOKEN}")
    try:
        return Client(wanted.url or access.url, token)
    except ValueError as error:
        raise Failure(f"{error} See --url and --token.") from None


class Run:
    """One run of the command. `export_id` is empty until there is an export to go on with."""

    def __init__(self, wanted: Wanted, client: Client, display: Display) -> None:
        self.wanted = wanted
        self.client = client
        self.display = display
        self.patience = Patience(display.show, lambda: display.show("The desk is back."))
        self.output = Output(wanted.output, wanted.force) if wanted.output is not None else None
        self.export_id = ""

    @property
    def page(self) -> str:
        return f"{self.client.url}/exports/{self.export_id}"

    def to_the_end(self) -> int:
        if self.output:
            self.output.check()
        answer = self._begin()
        if not self.wanted.waits:
            self.display.note(f"Ordered: {self.page}\n{self.way_on()}")
            print(self.export_id)
            return 0
        try:
            export = self._wait(answer)
        except KeyboardInterrupt:
            return self._interrupted()
        self.display.clear()
        _require_success(export)
        return self._deliver(export)

    def way_on(self) -> str:
        command = ["exportdesk", "export", "--again", self.export_id]
        command += ["--url", self.wanted.url] if self.wanted.url else []
        command += ["-o", self.wanted.output or "FILE"]
        return f"To go on with it: {shlex.join(command)}"

    def _begin(self) -> Answer:
        try:
            answer = self._look() if self.wanted.again is not None else self._order()
        except KeyboardInterrupt:
            self.display.interrupt()
            self.display.insist(f"Interrupted. Whether it was ordered, this page tells: {self.client.url}/exports")
            raise
        self.export_id = answer.export.id
        return answer

    def _look(self) -> Answer:
        assert self.wanted.again is not None
        return self.patience.call(partial(self.client.get, self.wanted.again))

    def _order(self) -> Answer:
        key = uuid.uuid4().hex
        answer = self.patience.call(self._saved_order(key) if self.wanted.saved else self._new_order(key))
        if self.wanted.waits:
            said = "Ordered" if answer.is_news else "It was ordered already"
            self.display.note(f"{said}: {self.client.url}/exports/{answer.export.id}")
        return answer

    def _new_order(self, key: str) -> Callable[[], Answer]:
        assert self.wanted.dataset is not None
        options = _implied_options(self.wanted.output)
        options |= {name: WORDS.get(texts[-1], texts[-1]) for name, texts in pairs("--option", self.wanted.options)}
        return partial(
            self.client.order,
            self.wanted.dataset,
            format=self.wanted.format or _format_of(self.wanted.output) or "csv",
            params=self._params(pairs("--param", self.wanted.params)),
            options=options,
            columns=None if self.wanted.columns is None else column_names(self.wanted.columns),
            name=self.wanted.name,
            note=self.wanted.note,
            idempotency_key=key,
        )

    def _saved_order(self, key: str) -> Callable[[], Answer]:
        there = self.patience.call(self.client.saved_orders)
        for saved in there:
            if self.wanted.saved in {saved.name, saved.id}:
                return partial(self.client.order_saved, saved.id, idempotency_key=key)
        raise _unknown("saved order", self.wanted.saved, [saved.name for saved in there])

    def _params(self, given: list[tuple[str, list[str]]]) -> dict[str, Any]:
        """Only the dataset knows whether one value is a list of one."""
        assert self.wanted.dataset is not None
        try:
            dataset = self.patience.call(partial(self.client.dataset, self.wanted.dataset))
        except Problem as problem:
            if problem.code == "NOT_FOUND":
                names = [dataset.name for dataset in self.patience.call(self.client.datasets)]
                raise _unknown("dataset", self.wanted.dataset, names) from None
            raise
        shapes: dict[str, dict[str, Any]] = dataset.parameters.get("properties", {})
        params: dict[str, Any] = {}
        for name, texts in given:
            is_list = shapes.get(name, {}).get("type") == "array"
            if len(texts) > 1 and name in shapes and not is_list:
                raise Failure(f"--param {name}: it is given {len(texts)} times, and takes one value.")
            params[name] = texts if is_list or len(texts) > 1 else texts[0]
        return params

    def _wait(self, answer: Answer) -> Export:
        """A long poll; on a terminal a short one while rows move, so that the bar moves with them."""
        began, wait = time.monotonic(), LIVELY_POLL
        while answer.export.is_active:
            self.display.show_export(answer.export)
            asked, at = wait if self.display.is_live else LONG_POLL, time.monotonic()
            known = answer
            answer = self.patience.call(partial(self.client.get, self.export_id, wait=asked, known=known))
            took = time.monotonic() - at
            if answer.export.version == known.export.version and took < asked * WAITED:
                time.sleep(max(0.0, (answer.retry_after or LIVELY_POLL) - took))
            calm = LIVELY_POLL if time.monotonic() - began < 10 else CALM_POLL
            wait = calm if answer.is_news else min(wait * 2, LONG_POLL)
        return answer.export

    def _deliver(self, export: Export) -> int:
        assert export.file is not None
        for warning in export.warnings:
            self.display.insist(f"Note: {warning.message} ({warning.count:,} times)")
        if self.output is None:
            self.display.note(
                f"Ready: {export.file.name}, {_shown_size(export)}, until {export.file.expires_at:%Y-%m-%d}."
            )
            print(self.page)
            return 0
        try:
            path = save(self.output, self.client, export, self.display, self.patience)
        except KeyboardInterrupt:
            self.display.interrupt()
            self.display.insist(f"Interrupted. {self.way_on()}")
            return EXIT_INTERRUPTED
        self.display.note(f"{_shown_size(export)}; size and SHA-256 are as promised.")
        if path is not None:
            sys.stdout.buffer.write(os.fsencode(path) + b"\n")
            sys.stdout.buffer.flush()
        return 0

    def _interrupted(self) -> int:
        """On a terminal it asks; another Ctrl-C then leaves at once."""
        self.display.interrupt()
        try:
            if sys.stdin.isatty() and sys.stderr.isatty() and self._is_unwanted():
                return self._cancel()
        except KeyboardInterrupt:
            self.display.interrupt()
        self.display.insist(f"The export goes on without you. {self.way_on()}")
        return EXIT_INTERRUPTED

    def _is_unwanted(self) -> bool:
        print(f"Cancel the export {self.export_id}? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    def _cancel(self) -> int:
        try:
            self.patience.call(partial(self.client.cancel, self.export_id))
        except Problem as problem:
            if problem.status != 409:
                raise
            self.display.insist(f"It cannot be cancelled any more. {problem.detail}\n{self.way_on()}")
            return EXIT_INTERRUPTED
        self.display.insist("Cancelled.")
        return EXIT_ENDED

    def explained(self, error: Problem | Unreachable | NotADesk | Damaged) -> Failure:
        """What went wrong and what to do about it."""
        match error:
            case Unreachable():
                sentence = f"{self.client.url} cannot be reached: {error}. Is the desk running, and is --url right?"
                failure = Failure(sentence, EXIT_ACCESS)
            case Problem(status=401):
                failure = Failure(f"The token is not valid here, or was revoked. {MAKE_A_TOKEN}", EXIT_ACCESS)
            case Problem(status=404) if self.wanted.again or self.export_id:
                name = self.wanted.again or self.export_id
                return Failure(f"There is no export {name} at {self.client.url}, or it is not yours.", EXIT_ACCESS)
            case Problem(status=410):
                return Failure(error.detail, EXIT_ENDED)
            case Problem(status=422) if self.wanted.saved:
                return Failure(f"{error} Change it at {self.client.url}/saved-orders.", EXIT_USE)
            case Problem(status=422):
                lines = [f"{_argument(wrong.field)}: {wrong.message}" for wrong in error.errors]
                return Failure("\n".join(lines or [error.detail]), EXIT_USE)
            case Damaged():
                failure = Failure(str(error), EXIT_FILE)
            case Problem():
                failure = Failure(error.detail, EXIT_ACCESS)
            case NotADesk():
                return Failure(str(error), EXIT_ACCESS)
        return Failure(f"{failure}\n{self.way_on()}", failure.code) if self.export_id else failure


def _require_success(export: Export) -> None:
    """Raises Failure with the export's own reason."""
    if export.status == "SUCCESS":
        return
    reason = f"{export.error.message} ({export.error.code})" if export.error else ""
    match export.status:
        case "FAILED":
            raise Failure(f"The export {export.id} failed. {reason}".strip(), EXIT_FAILED)
        case "CANCELLED":
            raise Failure(f"The export {export.id} was cancelled.", EXIT_ENDED)
        case _:
            raise Failure(reason or f"The export {export.id} is {export.status}.", EXIT_ENDED)


def _unknown(kind: str, name: str | None, there: Sequence[str]) -> Failure:
    shown = ", ".join(there[:NAMES_SHOWN]) + (" …" if len(there) > NAMES_SHOWN else "")
    return Failure(f"There is no {kind} named {name}. There are: {shown or 'none for you'}.")


def pairs(flag: str, given: Sequence[str]) -> list[tuple[str, list[str]]]:
    """`NAME=VALUE` by name, in the order of their first appearance. Raises Failure."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise Failure(f"{flag} {text}: write it as NAME=VALUE.")
        found.setdefault(name, []).append(value)
    return list(found.items())


def column_names(text: str) -> list[str]:
    """A line of CSV, for a name may have a comma in it. Raises Failure."""
    try:
        [names] = csv.reader([text], skipinitialspace=True, strict=True) if text.strip() else [[]]
    except (csv.Error, ValueError):
        raise Failure(f"--columns {text}: write names with commas between them, or in quotes, as in CSV.") from None
    return names


def _argument(field: str) -> str:
    """The argument that a field of the order came from."""
    if field == "options.columns":
        return "--columns"
    kind, dot, name = field.partition(".")
    return {"params": f"--param {name}", "options": f"--option {name}"}.get(kind, f"--{kind}") if dot else f"--{field}"


def _implied_options(output: str | None) -> dict[str, Any]:
    """`orders.csv.gz` is compressed without being told so."""
    name = Path(output or "").name.lower()
    ending = name.rpartition(".")[2]
    return {"compression": COMPRESSIONS[ending]} if ending in COMPRESSIONS and "." in name else {}


def _format_of(output: str | None) -> str | None:
    """What the name of the file asks for, when no format is given: `orders.xlsx`."""
    return next((part for part in Path(output or "").name.lower().split(".")[1:] if part in FORMATS), None)


def _shown_size(export: Export) -> str:
    assert export.file is not None
    return f"{counted(export.file.rows, 'row')}, {size(export.file.size)}"
