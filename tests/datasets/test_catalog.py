"""`exportdesk.toml`: what it may say, and what is said about mistakes in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from webapp.datasets import catalog as catalog_module
from webapp.datasets.catalog import check_catalog, demo_catalog, demo_path, load_catalog
from webapp.datasets.declaration import BadCatalog, Catalog, Choice
from webapp.datasets.demo import make_demo
from webapp.datasets.sources import READERS
from webapp.datasets.tables import LineIndex
from webapp.domain.access import Role, Viewer
from webapp.domain.formats import FORMATS

USER, ADMIN = Viewer("usr_1", "user", Role.USER), Viewer("usr_2", "admin", Role.ADMIN)
SCHEMES = " or ".join(f"{scheme}://" for scheme in READERS)

GOOD = """
[sources.air]
url = "sqlite:///air.db"
max_running = 4

[datasets.flights]
title = "Flights"
description = "Every departure, one row each"
source = "air"
sql = "SELECT * FROM flights WHERE (:origin IS NULL OR origin = :origin) AND day >= :since"
formats = ["csv", "jsonl"]
roles = ["admin"]
row_limit = 5_000_000
execution_limit = "30m"
max_attempts = 5
max_running = 1

[datasets.flights.parameters.origin]
type = "choice"
label = "Origin"
choices = ["JFK", {value = "EWR", label = "Newark"}]

[datasets.flights.parameters.since]
type = "date"
default = "today - 30d"
minimum = 2013-01-01

[datasets.planes]
title = "Planes"
source = "air"
sql = '''
SELECT ':not_a_parameter' -- :nor_this
FROM planes'''
"""


def load(folder: Path, text: str, **environ: str) -> Catalog:
    path = folder / "exportdesk.toml"
    path.write_text(text, encoding="utf-8")
    return load_catalog(path, environ)


def problems(folder: Path, text: str, **environ: str) -> list[tuple[int, str]]:
    with pytest.raises(BadCatalog) as caught:
        load(folder, text, **environ)
    assert {problem.file for problem in caught.value.problems} == {str(folder / "exportdesk.toml")}
    return [(problem.line, problem.message) for problem in caught.value.problems]


def dataset(lines: str, *, sql: str = "SELECT 1") -> str:
    """A right file whose dataset goes on, in line 8, with the given lines."""
    return (
        f'[sources.s]\nurl = "sqlite:///s.db"\n[datasets.d]\ntitle = "D"\n'
        f'source = "s"\nsql = "{sql}"\n# line 7\n{lines}\n'
    )


def test_a_dataset_is_read_with_all_its_settings(tmp_path: Path) -> None:
    flights = load(tmp_path, GOOD).datasets["flights"]
    assert (flights.title, flights.source, flights.formats) == ("Flights", "air", ("csv", "jsonl"))
    assert (flights.row_limit, flights.execution_limit, flights.max_attempts) == (
        5_000_000,
        timedelta(minutes=30),
        5,
    )
    assert (flights.max_running, load(tmp_path, GOOD).sources["air"].max_running) == (1, 4)
    origin, since = flights.parameters
    assert origin.choices == (Choice("JFK", "JFK"), Choice("EWR", "Newark"))
    assert (since.label, since.default, since.minimum) == ("Since", "today - 30d", "2013-01-01")


def test_what_is_left_out_has_defaults(tmp_path: Path) -> None:
    planes = load(tmp_path, GOOD).datasets["planes"]
    assert planes.formats == tuple(FORMATS)
    assert planes.roles == frozenset(Role)
    assert (planes.row_limit, planes.max_bytes, planes.execution_limit, planes.max_attempts) == (None, None, None, 3)
    assert planes.max_running is None


def test_a_role_sees_only_its_datasets(tmp_path: Path) -> None:
    catalog = load(tmp_path, GOOD)
    assert [d.name for d in catalog.datasets_for(USER)] == ["planes"]
    assert [d.name for d in catalog.datasets_for(ADMIN)] == ["flights", "planes"]
    assert catalog.dataset_for("flights", USER) is None
    assert catalog.dataset_for("nothing", ADMIN) is None
    assert catalog.dataset_for("flights", ADMIN) is catalog.datasets["flights"]


def test_a_relative_path_starts_at_the_folder_of_the_file(tmp_path: Path) -> None:
    catalog = load(tmp_path, GOOD)
    assert catalog.source_of(catalog.datasets["planes"]).url == f"sqlite:///{tmp_path}/air.db"


def test_three_slashes_may_mean_an_absolute_path_that_exists(tmp_path: Path) -> None:
    real = tmp_path / "real.db"
    real.touch()
    (tmp_path / "config").mkdir()
    catalog = load(tmp_path / "config", GOOD.replace("air.db", str(real).lstrip("/")))
    assert catalog.sources["air"].url == f"sqlite:///{real}"


def test_secrets_come_from_the_environment_and_from_files_and_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "name.txt").write_text("  shop\n", encoding="utf-8")
    text = GOOD.replace("air.db", "${PLACE}/${file:name.txt}.db?key=${NESTED}")
    source = load(tmp_path, text, PLACE="/srv", NESTED="${PLACE}").sources["air"]
    assert source.url == "sqlite:////srv/shop.db?key=${PLACE}"
    assert "srv" not in repr(source)


@pytest.mark.parametrize(
    ("insert", "message"),
    [
        ("${MISSING}", "sources.air: The environment variable MISSING is not set."),
        ("${file:none.txt}", "sources.air: The file {folder}/none.txt cannot be read (No such file or directory)."),
    ],
)
def test_a_secret_that_is_not_there(tmp_path: Path, insert: str, message: str) -> None:
    text = GOOD.replace("air.db", insert)
    assert problems(tmp_path, text)[0] == (3, message.replace("{folder}", str(tmp_path)))


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    text = """colour = "red"
[sources.air]
url = "gopher://me:hunter2@host/db"
[sources.Sea]
uri = "sqlite:///x.db"
max_running = 0
[datasets.flights]
tilte = "Flights"
source = "aire"
sql = '''
SELECT *
FROM flights
WHERE day >= :sinse'''
formats = ["csv", "xslx"]
roles = ["root"]
row_limit = 0
execution_limit = "soon"
max_attempts = true
[datasets.flights.parameters.since]
type = "dat"
[datasets.empty]
"""
    found = problems(tmp_path, text)
    assert "hunter2" not in str(found)
    assert found == [
        (1, "There is no setting colour here."),
        (3, f"sources.air: url must start with {SCHEMES}, as in sqlite:///shop.db or sqlite:////srv/shop.db."),
        (4, "sources.Sea: a name is a small letter, then at most 62 small letters, digits, _ and -."),
        (4, "sources.Sea: url is missing."),
        (5, "sources.Sea: There is no setting uri here. Did you mean url?"),
        (6, "sources.Sea: max_running must be a whole number from 1 to 1,000."),
        (7, "datasets.flights: title is missing."),
        (8, "datasets.flights: There is no setting tilte here. Did you mean title?"),
        (9, "datasets.flights: There is no [sources.aire]. Did you mean air?"),
        (13, "datasets.flights: sql uses :sinse, which is not declared as a parameter. Did you mean since?"),
        (
            14,
            f"datasets.flights: formats must be one of {', '.join(FORMATS)}, not 'xslx'. Did you mean xlsx?",
        ),
        (15, "datasets.flights: roles must be one of user, admin, not 'root'."),
        (16, "datasets.flights: row_limit must be a whole number from 1 to 1,000,000,000,000."),
        (17, "datasets.flights: execution_limit: write a number and a unit, such as 90s, 30m, 12h or 7d."),
        (18, "datasets.flights: max_attempts must be a whole number from 1 to 10."),
        (19, "datasets.flights: sql never uses the parameter :since."),
        (
            20,
            "datasets.flights.parameters.since: type must be one of string, integer, number, boolean, date, datetime, "
            "choice, choices, list, not 'dat'. Did you mean date?",
        ),
        (21, "datasets.empty: title is missing."),
        (21, "datasets.empty: source is missing."),
        (21, "datasets.empty: sql is missing."),
    ]


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ('type = "integer"\ndefault = "5"', 10, "default must be a number without quotes."),
        ('type = "integer"\ndefault = 1.5', 10, "default must be a whole number."),
        ('type = "integer"\ndefault = true', 10, "default must be a whole number."),
        ('type = "integer"\ndefault = 11\nmaximum = 10', 10, "default must be 10 or less."),
        ('type = "number"\nminimum = 2\nmaximum = 1', 10, "minimum is over maximum."),
        ('type = "number"\nmaximum = nan', 10, "maximum must be a finite number."),
        ('type = "boolean"\ndefault = "yes"', 10, "default must be true or false without quotes."),
        (
            'type = "date"\ndefault = "yesterday"',
            10,
            "default must be a date like 2026-01-31, or relative like today - 30d, start of month or now - 6h.",
        ),
        (
            'type = "date"\ndefault = "now - 6h"',
            10,
            "default must be a date like 2026-01-31, or relative like today - 30d, start of month or now - 6h.",
        ),
        ('type = "date"\ndefault = "today"\nmaximum = "today - 1d"', 10, "default must be 2026-07-14 or earlier."),
        ('type = "date"\nminimum = 2026-02-01\nmaximum = 2026-01-01', 10, "minimum is over maximum."),
        ('type = "choice"\nchoices = []', 10, "choices must be a list with at least one item."),
        ('type = "choice"', 8, "choices is missing."),
        ('type = "choice"\nchoices = ["a"]\ndefault = "b"', 11, "default must be one of a."),
        ('type = "choices"\nchoices = ["a", "a"]', 10, "choices has a more than once."),
        (
            'type = "choice"\nchoices = [2024]',
            10,
            'each choice is a text, or a table such as {value = "DE", label = "Germany"}.',
        ),
        ('type = "string"\nminimum = 1', 10, "minimum has no meaning for a parameter of type string."),
        ('type = "date"\nchoices = ["a"]', 10, "choices has no meaning for a parameter of type date."),
        ('type = "string"\nmax_length = 0', 10, "max_length must be a whole number from 1 to 10,000."),
        ('type = "string"\nmax_length = 2\ndefault = "abc"', 11, "default must have at most 2 characters, not 3."),
        ('type = "string"\nrequired = "no"', 10, "required must be true or false."),
        ('label = "P"', 8, "type is missing."),
        ('type = "string"\nchoices_sql = "SELECT 1"', 10, "choices_sql has no meaning for a parameter of type string."),
        ('type = "choice"\nchoices = ["a"]\nchoices_sql = "SELECT 1"', 11, "say either choices or choices_sql."),
        ('type = "choice"\nchoices_sql = "SELECT :p"', 10, "choices_sql cannot have parameters; it has p."),
        ('type = "choice"\nchoices_sql = "SELECT 1"\ndefault = ["a"]', 11, "default must be a text."),
        ('type = "choices"\nchoices_sql = "SELECT 1"\ndefault = "a"', 11, "default must be a list of texts."),
        ('type = "string"\nlable = "P"', 10, "There is no setting lable here. Did you mean label?"),
    ],
)
def test_mistakes_in_a_parameter(tmp_path: Path, lines: str, line: int, message: str) -> None:
    text = dataset(f"[datasets.d.parameters.p]\n{lines}", sql="SELECT :p")
    assert problems(tmp_path, text) == [(line, f"datasets.d.parameters.p: {message}")]


@pytest.mark.parametrize(
    ("written", "size"),
    [("5_001", 5001), ('"2GB"', 2 * 10**9), ('"512 MiB"', 512 * 2**20), ('"1.5gb"', 1_500_000_000), ('"9 b"', 9)],
)
def test_sizes_are_numbers_or_have_a_unit(tmp_path: Path, written: str, size: int) -> None:
    declared = load(tmp_path, dataset(f'max_bytes = {written}\nmemory_limit = "1GiB"')).datasets["d"]
    assert (declared.max_bytes, declared.memory_limit) == (size, 2**30)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_bytes = 0", "max_bytes must be a size from 1 byte to 1 TB."),
        ('max_bytes = "much"', "max_bytes: write a number of bytes, or a number and a unit, such as 512MB or 2GiB."),
        ('max_bytes = "5Mb/s"', "max_bytes: write a number of bytes, or a number and a unit, such as 512MB or 2GiB."),
        ('memory_limit = "1MB"', "memory_limit must be a size from 32 MiB to 1 TB."),
        ("memory_limit = true", "memory_limit must be a size from 32 MiB to 1 TB."),
    ],
)
def test_sizes_that_are_none(tmp_path: Path, line: str, message: str) -> None:
    assert problems(tmp_path, dataset(line)) == [(8, f"datasets.d: {message}")]


CHOOSING = """
[datasets.d.parameters.p]
type = "choice"
choices_sql = "{sql}"
{more}"""


@pytest.mark.parametrize(
    ("sql", "more", "line", "message"),
    [
        ("SELECT code FROM gone", "", 11, "datasets.d.parameters.p: no such table: gone"),
        ("SELECT 1, 2, 3", "", 11, "datasets.d.parameters.p: choices_sql must have one column, the value, or two"),
        ("SELECT x'00'", "", 11, "datasets.d.parameters.p: choices_sql gives bytes"),
        ("SELECT 'a'", 'default = "b"', 6, "datasets.d: A default is not allowed today: it must be one of a"),
    ],
)
def test_the_check_runs_the_queries_of_choices(tmp_path: Path, sql: str, more: str, line: int, message: str) -> None:
    sqlite3.connect(tmp_path / "s.db").close()
    (tmp_path / "s.db").touch()
    catalog = load(tmp_path, dataset(CHOOSING.format(sql=sql, more=more), sql="SELECT :p"))
    [found] = check_catalog(catalog, tmp_path / "exportdesk.toml")
    assert (found.line, found.message.startswith(message)) == (line, True), found


def test_a_parameter_with_a_hyphen_could_not_be_bound(tmp_path: Path) -> None:
    found = problems(tmp_path, dataset('[datasets.d.parameters.a-b]\ntype = "string"'))
    assert (8, "datasets.d.parameters.a-b: a name is a small letter, then small letters, digits and _.") in found


def test_fixed_and_relative_dates_are_not_compared(tmp_path: Path) -> None:
    lines = '[datasets.d.parameters.p]\ntype = "date"\nminimum = 2026-12-31\nmaximum = "today"\ndefault = "today"'
    assert load(tmp_path, dataset(lines, sql="SELECT :p")).datasets["d"].parameters[0].default == "today"


@pytest.mark.parametrize("text", ["?", "?1", "@p", "$p"])
def test_other_kinds_of_parameters_are_refused(tmp_path: Path, text: str) -> None:
    found = problems(tmp_path, dataset("", sql=f"SELECT {text}"))
    assert found == [(6, f"datasets.d: sql has {text}; write parameters as :name.")]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[sources.a]\nurl = \n", 2, "This is not valid TOML: Invalid value."),
        ("[a]\n[b]\n[a]\n", 3, "This is not valid TOML: Cannot declare ('a',) twice."),
        ('a = """\n\n', 3, "This is not valid TOML: Unterminated string."),
        ("a = " + "[" * 5000, 1, "The file is nested too deeply."),
        ("sources = 1", 1, "sources must be a table, written [sources.NAME]."),
        ("[sources]\na = 1", 2, "sources.a must be a table, written [sources.a]."),
        ("[[datasets]]\na = 1", 1, "datasets must be a table, written [datasets.NAME]."),
        ("# nothing\n", 1, "There is no [datasets.NAME] table, so that nothing could be exported."),
        ("#" * (1024 * 1024 + 1), 1, "The file is larger than 1024 KiB."),
    ],
)
def test_files_that_are_no_catalog(tmp_path: Path, text: str, line: int, message: str) -> None:
    assert problems(tmp_path, text) == [(line, message)]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadCatalog, match=r"none\.toml:1: The file cannot be read \(No such file or directory\)"):
        load_catalog(tmp_path / "none.toml", {})


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes("# one\n# zwölf\n".encode("latin-1"))
    with pytest.raises(BadCatalog, match=r"latin\.toml:2: The file is not UTF-8 text"):
        load_catalog(path, {})


def test_a_file_from_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "exportdesk.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert "\r" not in load_catalog(path, {}).datasets["planes"].sql


LINES = """a = [ # [x]
  "]", 1.5, {b = "="}, # ]
]
"quoted.key" = \"\"\"
[not.a.table]
x = 1""\\\""\"\"\"\"\"
b.c = 'it"s'
[[list]]
k = 1
[d . "e.f"]
g = { h = 1 }
i = 2026-01-01T00:00:00Z
"""


def test_lines_are_found_through_every_kind_of_value() -> None:
    index = LineIndex(LINES)
    assert index.lines == {
        ("a",): 1,
        ("quoted.key",): 4,
        ("b",): 7,
        ("b", "c"): 7,
        ("list",): 8,
        ("list", "k"): 9,
        ("d",): 10,
        ("d", "e.f"): 10,
        ("d", "e.f", "g"): 11,
        ("d", "e.f", "i"): 12,
    }
    assert index.line_of(("d", "e.f", "g", "h")) == 11
    assert index.line_of(("nothing",)) == 1


def test_the_check_runs_every_query_and_names_its_line(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "air.db")) as connection:
        connection.execute("CREATE TABLE flights (day DATE, origin TEXT)")
    found = check_catalog(load(tmp_path, GOOD), tmp_path / "exportdesk.toml")
    assert [(problem.line, "planes" in problem.message) for problem in found] == [(31, True)]


def test_the_check_tells_a_missing_file_once(tmp_path: Path) -> None:
    found = check_catalog(load(tmp_path, GOOD), tmp_path / "exportdesk.toml")
    assert [(p.line, p.message) for p in found] == [(3, f"sources.air: There is no file {tmp_path}/air.db.")]


def test_the_demo_is_a_right_catalog(tmp_path: Path) -> None:
    catalog = demo_catalog(tmp_path)
    make_demo(demo_path(tmp_path), orders=10)
    assert list(catalog.datasets) == ["orders", "customers", "products"]
    assert check_catalog(catalog, Path(catalog_module.__file__).with_name("demo.toml")) == []
