"""What is the same for every database server: one snapshot, a lost connection, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from answers import failure, rows
from servers import SERVERS, Server, own_database

from webapp.datasets.sources import open_rows
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options

MANY = "CREATE TABLE many (id INT PRIMARY KEY, label VARCHAR(20))"
FILL = {
    "postgres": ("INSERT INTO many SELECT i, 'row ' || i FROM generate_series(1, 3000) i", "ANALYZE many"),
    "mariadb": ("INSERT INTO many SELECT seq, CONCAT('row ', seq) FROM seq_1_to_3000", "ANALYZE TABLE many"),
}
REFUSED = {
    "postgres": [
        ("SELECT * FROM vanished", 'relation "vanished" does not exist'),
        ("SELECT vanished FROM many", 'column "vanished" does not exist'),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; DROP TABLE many", "only one statement"),
        ("DROP TABLE many", "syntax error"),
        ("INSERT INTO many VALUES (1, 'x') RETURNING id", "syntax error"),
        ("WITH gone AS (DELETE FROM many RETURNING id) SELECT * FROM gone", "WITH clause containing a data-modifying"),
        ("SELECT nextval('numbers')", "read-only transaction"),
        ("SELECT 1 / (id - 7) FROM many", "division by zero"),
        ("SELECT label::int FROM many", "invalid input syntax"),
        ("SELECT FROM many", "no columns"),
    ],
    "mariadb": [
        ("SELECT * FROM vanished", "vanished' doesn't exist"),
        ("SELECT vanished FROM many", "Unknown column 'vanished'"),
        ("SELEC 1", "error in your SQL syntax"),
        ("SELECT 1; DROP TABLE many", "only one statement"),
        ("INSERT INTO many VALUES (-1, 'x')", "READ ONLY transaction"),
        ("SELECT 1 INTO OUTFILE '/tmp/never'", "gives no rows"),
        ("DELETE FROM many RETURNING id", "READ ONLY transaction"),
    ],
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """It has 3,000 rows in `many`."""
    with own_database(request.param, request.getfixturevalue(request.param)) as made:
        made.run(MANY, *FILL[request.param], "CREATE SEQUENCE numbers")
        yield made


def test_one_snapshot_from_the_first_moment_on(server: Server) -> None:
    with open_rows(server.url, "SELECT count(*) FROM many", {}) as reader:
        server.run("INSERT INTO many VALUES (0, 'new')")
        try:
            assert [*reader.batches()] == [[(3000,)]]
        finally:
            server.run("DELETE FROM many WHERE id = 0")


def test_an_estimate_is_the_planners(server: Server) -> None:
    with open_rows(server.url, "SELECT * FROM many", {}) as reader:
        assert 2000 < (reader.estimate() or 0) < 4000


def test_parameters_may_be_left_out(server: Server) -> None:
    sql = "SELECT id FROM many WHERE (:origin IS NULL OR label = :origin) AND id <= coalesce(:most, id) ORDER BY id"
    assert len(rows(server.url, sql, origin=None, most=None)) == 3000
    assert rows(server.url, sql, origin="row 7", most=None) == [(7,)]
    assert len(rows(server.url, sql, origin=None, most=12)) == 12


@pytest.mark.parametrize("way", ["rows", "csv"])
def test_a_connection_lost_in_the_middle_may_come_back(server: Server, way: str) -> None:
    with open_rows(server.url, server.ROWS_FOR_EVER, {}) as reader:
        going = (reader.raw_csv(Options()) if way == "csv" else None) or reader.batches()
        next(going)
        server.kill()
        with pytest.raises(AttemptFailed) as caught:
            for _ in going:
                pass
    assert caught.value.code is ErrorCode.SOURCE_UNREACHABLE


@pytest.mark.parametrize(
    ("server", "sql", "words"),
    [pytest.param("postgres", *case, marks=pytest.mark.postgres) for case in REFUSED["postgres"]]
    + [("mariadb", *case) for case in REFUSED["mariadb"]],
    indirect=["server"],
)
def test_a_refused_query_is_explained(server: Server, sql: str, words: str) -> None:
    failed = failure(server.url, sql)
    assert failed.code is ErrorCode.QUERY_ERROR
    assert words in failed.details["detail"]
    assert len(failed.details["detail"]) <= 200
    assert "\n" not in failed.details["detail"]


def test_a_server_that_cannot_be_reached_keeps_its_url_to_itself(server: Server) -> None:
    parts = urlsplit(server.url)
    for address in (
        parts._replace(netloc="somebody:s3cret@127.0.0.1:1"),
        parts._replace(path="/no_such_database"),
        parts._replace(netloc=f"nobody:s3cret@{parts.hostname}:{parts.port}"),
    ):
        failed = failure(address.geturl(), "SELECT 1")
        assert (failed.code, failed.details) == (ErrorCode.SOURCE_UNREACHABLE, {})
