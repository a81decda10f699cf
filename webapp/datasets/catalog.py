"""Reads `exportdesk.toml` into a catalog of sources and datasets, and checks it against the sources."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from webapp.datasets.choices import read_choices, with_choices
from webapp.datasets.declaration import BadCatalog, Catalog, Choice, Dataset, Problem, Source, did_you_mean
from webapp.datasets.declared_parameters import read_parameter
from webapp.datasets.parameters import Unfit, bind_values, default_value
from webapp.datasets.placeholders import foreign_parameters, named_parameters
from webapp.datasets.reading import BadUrl
from webapp.datasets.relative import Moment
from webapp.datasets.sources import describe, missing, normalized
from webapp.datasets.tables import LineIndex, Report, Table
from webapp.domain.access import Role
from webapp.domain.errors import AttemptFailed, export_error
from webapp.domain.formats import FORMATS
from webapp.settings import parse_duration

FILE_BYTES = 1024 * 1024
DEMO = Path(__file__).with_name("demo.toml")
SECRET_BYTES = 64 * 1024
LARGEST_LIMIT = 10**12
MOST_RUNNING = 1000
SMALLEST_MEMORY = 32 * 1024 * 1024
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
NAME_RULE = "a name is a small letter, then at most 62 small letters, digits, _ and -."
INSERT = re.compile(r"\$\{([^}]*)\}")
DATASET_KEYS = (
    "title", "description", "source", "sql", "parameters", "roles", "formats",
    "row_limit", "max_bytes", "execution_limit", "memory_limit", "max_attempts", "max_running",
)  # fmt: skip


def load_catalog(path: Path, environ: Mapping[str, str]) -> Catalog:
    """Raises BadCatalog with every mistake of the file. `${NAME}` in a source's url comes out of `environ`.

    Relative paths, of SQLite files and of `${file:PATH}`, start at the folder of the file.
    """
    return read_catalog(read_text(path), path, environ)


def read_catalog(text: str, path: Path, environ: Mapping[str, str]) -> Catalog:
    """The same of a text that would stand in the file. Raises BadCatalog."""
    data = _parse(path, text)
    report = Report(str(path), LineIndex(text))
    root = Table((), data, report)
    root.allow(("sources", "datasets"))
    sources = {table.path[-1]: _read_source(table, path.absolute().parent, environ) for table in root.tables("sources")}
    datasets = {table.path[-1]: _read_dataset(table, sources) for table in root.tables("datasets")}
    if not datasets and not report.problems:
        report.add((), "There is no [datasets.NAME] table, so that nothing could be exported.")
    if report.problems:
        raise BadCatalog(sorted(report.problems, key=lambda problem: problem.line))
    return Catalog(datasets, sources)


def check_catalog(catalog: Catalog, path: Path) -> list[Problem]:
    """Runs each query for no rows, with its defaults, and those that give choices; tells what fails, at its line."""
    return check_text(catalog, read_text(path), path)


def check_text(catalog: Catalog, text: str, path: Path) -> list[Problem]:
    """The same of a text that would stand in the file; `catalog` may be a part of what it declares."""
    report = Report(str(path), LineIndex(text))
    absent = {name: sentence for name, source in catalog.sources.items() if (sentence := missing(source.url))}
    for name, sentence in absent.items():
        report.add(("sources", name, "url"), f"sources.{name}: {sentence}")
    for dataset in catalog.datasets.values():
        if dataset.source not in absent:
            _check_dataset(catalog, dataset, report)
    return sorted(report.problems, key=lambda problem: problem.line)


def demo_path(folder: Path) -> Path:
    """Where the demo source lies in the data folder."""
    return folder.absolute() / "demo.db"


def demo_catalog(folder: Path) -> Catalog:
    """What can be exported when no file is given: the demo source in the data folder `folder`."""
    return load_catalog(DEMO, {"DEMO_DB": str(demo_path(folder))})


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise BadCatalog([Problem(str(path), 1, f"The file cannot be read ({error.strerror}).")]) from None
    if len(content) > FILE_BYTES:
        raise BadCatalog([Problem(str(path), 1, f"The file is larger than {FILE_BYTES // 1024} KiB.")])
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadCatalog([Problem(str(path), line, "The file is not UTF-8 text.")]) from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise BadCatalog([Problem(str(path), 1, "The file is nested too deeply.")]) from None
    except ValueError as error:
        match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(match[1] or text.count("\n") + 1) if match else 1
        message = str(error)[: match.start()] if match else str(error)
        raise BadCatalog([Problem(str(path), line, f"This is not valid TOML: {message}.")]) from None


def _check_name(table: Table) -> None:
    if not NAME.fullmatch(table.path[-1]):
        table.report.add(table.path, f"{table.name[:80]}: {NAME_RULE}")


def _read_source(table: Table, folder: Path, environ: Mapping[str, str]) -> Source:
    _check_name(table)
    table.allow(("url", "max_running"))
    table.require("url")
    given = table.text("url") or ""
    url = INSERT.sub(partial(_inserted, table, folder, environ), given)
    try:
        return Source(table.path[-1], normalized(url, folder) if given else "", _max_running(table))
    except BadUrl as bad:
        table.wrong("url", str(bad))
        return Source(table.path[-1], "")


def _max_running(table: Table) -> int | None:
    """How many exports may run at a time of a dataset, or of all datasets of a source."""
    return table.integer("max_running", low=1, high=MOST_RUNNING)


def _inserted(table: Table, folder: Path, environ: Mapping[str, str], match: re.Match[str]) -> str:
    """What `${NAME}` or `${file:PATH}` stands for; never quoted in a message, it may be a password."""
    name = match[1].strip()
    if name.startswith("file:"):
        return _file_content(table, folder / name.removeprefix("file:"))
    if not environ.get(name):
        table.wrong("url", f"The environment variable {name[:64]} is not set.")
    return environ.get(name, "")


def _file_content(table: Table, path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(SECRET_BYTES).strip()
    except OSError as error:
        table.wrong("url", f"The file {path} cannot be read ({error.strerror}).")
    except ValueError:
        table.wrong("url", f"The file {path} is not UTF-8 text.")
    return ""


def _read_dataset(table: Table, sources: Mapping[str, Source]) -> Dataset:
    _check_name(table)
    table.allow(DATASET_KEYS)
    table.require("title", "source", "sql")
    parameters = tuple(read_parameter(inner) for inner in table.tables("parameters"))
    sql = table.text("sql") or ""
    _check_parameters(table, sql, [parameter.name for parameter in parameters])
    return Dataset(
        name=table.path[-1],
        title=table.text("title") or "",
        description=table.text("description") or "",
        source=_source_name(table, sources),
        sql=sql,
        parameters=parameters,
        roles=frozenset(map(Role, table.several("roles", [role.value for role in Role]) or Role)),
        formats=table.several("formats", tuple(FORMATS)) or tuple(FORMATS),
        row_limit=table.integer("row_limit", low=1, high=LARGEST_LIMIT),
        max_bytes=table.size("max_bytes", low=1, high=LARGEST_LIMIT),
        execution_limit=_duration(table, "execution_limit"),
        memory_limit=table.size("memory_limit", low=SMALLEST_MEMORY, high=LARGEST_LIMIT),
        max_attempts=table.integer("max_attempts", low=1, high=10) or 3,
        max_running=_max_running(table),
    )


def _source_name(table: Table, sources: Mapping[str, Source]) -> str:
    name = table.text("source") or ""
    if name and name not in sources:
        table.wrong("source", f"There is no [sources.{name[:64]}].{did_you_mean(name, sources)}")
    return name


def _duration(table: Table, key: str) -> timedelta | None:
    if (text := table.text(key)) is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        return table.wrong(key, f"{key}: {error}.")


def _check_parameters(table: Table, sql: str, declared: list[str]) -> None:
    used = named_parameters(sql)
    for name in used:
        if name not in declared:
            message = f"sql uses :{name[:64]}, which is not declared as a parameter.{did_you_mean(name, declared)}"
            table.wrong("sql", message, near=f":{name}")
    for text in foreign_parameters(sql):
        table.wrong("sql", f"sql has {text[:64]}; write parameters as :name.", near=text)
    for name in declared if sql else []:
        if name not in used:
            path = (*table.path, "parameters", name)
            table.report.add(path, f"{table.name}: sql never uses the parameter :{name[:64]}.")


def _check_dataset(catalog: Catalog, dataset: Dataset, report: Report) -> None:
    lists: dict[str, tuple[Choice, ...]] = {}
    path = ("datasets", dataset.name)
    for parameter in dataset.parameters:
        try:
            if parameter.choices_sql is not None:
                lists[parameter.name] = read_choices(catalog.source_of(dataset).url, parameter.choices_sql)
        except AttemptFailed as failure:
            place = (*path, "parameters", parameter.name, "choices_sql")
            report.add(place, f"{'.'.join(place[:-1])}: {_told(failure)}")
            return
    if message := _refusal(catalog, with_choices(dataset, lists)):
        report.add((*path, "sql"), f"datasets.{dataset.name}: {message}")


def _refusal(catalog: Catalog, dataset: Dataset) -> str | None:
    """Why the source does not take the query, or None."""
    now = datetime.now(UTC)
    moment = Moment(now.date(), now)
    try:
        params = {parameter.name: default_value(parameter, moment) for parameter in dataset.parameters}
        describe(catalog.source_of(dataset).url, dataset.sql, bind_values(dataset, params))
    except Unfit as unfit:
        return f"A default is not allowed today: it {unfit}."
    except AttemptFailed as failure:
        return _told(failure)
    return None


def _told(failure: AttemptFailed) -> str:
    return failure.details.get("detail") or export_error(failure.code, **failure.details).message
