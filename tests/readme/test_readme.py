"""Whatever the README gives to copy is run or checked, and it leads to each of its parts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import yaml
from babel.messages.pofile import read_po
from cli.command_line import CHECKOUT, environment, free_port
from needed import missing
from proxies import NGINX, make_certificate
from readme.readme_blocks import BLOCKS, HEADINGS, README, Block, anchor, block

from webapp.cli import parser
from webapp.datasets.catalog import check_catalog, load_catalog
from webapp.monitoring.files import content
from webapp.settings import read_settings

TESTED = (
    ("Start it", "sh", "starts the desk that the others use"),
    ("Check it", "sh", "is what CI runs"),
    ("Your own data", "toml", "is loaded and its query checked"),
    ("Your own data", "sh", "runs"),
    ("A PostgreSQL source", "sql", "runs on a server"),
    ("A PostgreSQL source", "toml", "is loaded and its query checked there"),
    ("Everything a dataset can say", "toml", "is loaded and its queries checked"),
    ("Order by API", "sh", "runs"),
    ("Poll in a shell", "sh", "runs"),
    ("The `exportdesk` command", "sh", "runs"),
    ("Python", "python", "runs"),
    ("Callbacks", "sh", "runs"),
    ("Follow events", "sh", "runs"),
    ("People and access", "sh", "runs"),
    ("Sign in by OpenID or a trusted proxy", "ini", "is read as settings"),
    ("Sign in by OpenID or a trusted proxy", "ini", "is read as settings"),
    ("In production", "ini", "is read as settings"),
    ("In production", "sh", "is understood by the command line"),
    ("systemd", "sh", "runs"),
    ("systemd", "ini", "is verified by systemd"),
    ("systemd", "ini", "is verified by systemd"),
    ("systemd", "sh", "names units that are there"),
    ("nginx", "nginx", "serves a desk"),
    ("Caddy", "caddy", "serves a desk"),
    ("compose", "yaml", "is read; its commands are understood"),
    ("Files in a bucket (S3)", "ini", "is read as settings"),
    ("Files in a bucket (S3)", "sh", "runs"),
    ("Monitoring", "sh", "runs"),
    ("Monitoring", "yaml", "is checked by promtool"),
    ("The change log in Kafka or a Redis stream", "ini", "is read as settings"),
    ("Back it up", "sh", "runs"),
    ("Back it up", "sh", "runs against PostgreSQL"),
    ("Upgrade", "sh", "runs"),
    ("Upgrade", "sh", "runs"),
    ("Rotate the key", "sh", "runs"),
    ("The tree", "", "names folders that are there"),
    ("The tree", "sh", "finds nothing that the catalog lacks"),
)
"""Heading, language, and what the tests below do with it: a block that is not here fails the first of them."""
STAND_INS = {
    "exportdesk": f'exec {shlex.quote(sys.executable)} -m webapp.cli "$@"',
    "python": f'exec {shlex.quote(sys.executable)} "$@"',
    "python3": '[ "$*" = "-m venv .venv" ] && mkdir -p .venv/bin && cp bin/pip bin/exportdesk .venv/bin',
    **dict.fromkeys(("pip", "git", "systemctl", "useradd"), 'echo "${0##*/} $*" >> calls.txt'),
}
"""Tests have no network and no systemd: these are noted. What CI begins with installs for real."""
UNITS = re.compile(r"exportdesk-[a-z]+(?:@\d+)?(?= |$)")
STARTING_SECONDS = 120
RUNNING_SECONDS = 400


def test_no_block_is_left_out() -> None:
    assert [(each.heading, each.language) for each in BLOCKS] == [
        (heading, language) for heading, language, _ in TESTED
    ]


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", README)
    anchors = {f"#{anchor(heading)}" for heading in HEADINGS}
    local = [link for link in links if not urlsplit(link).scheme]
    assert [link for link in local if link.startswith("#") and link not in anchors] == []
    assert [link for link in local if not link.startswith("#") and not (CHECKOUT / link).exists()] == []
    sections = {f"#{anchor(heading)}" for heading in re.findall(r"^## (.+)$", README, re.M)}
    assert sections <= set(links), "the contents at the top name every section"


def test_its_picture_is_small() -> None:
    [picture] = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert (CHECKOUT / picture).stat().st_size < 150_000


def test_it_names_every_setting() -> None:
    source = (CHECKOUT / "webapp" / "settings.py").read_text(encoding="utf-8")
    names = set(re.findall(r'reader\.\w+\(\s*"([A-Z_]+)"', source))
    assert len(names) > 20
    assert {name for name in names if f"`{name}`" not in README and f"EXPORTDESK_{name}=" not in README} == set()


def test_the_tree_is_there() -> None:
    lines = block("The tree", "").code.splitlines()
    folders = [name for line in lines for name in re.split(r" {2,}", line)[0].split()]
    assert len(folders) > 10
    assert [name for name in folders if not any((CHECKOUT / place / name).is_dir() for place in ("", "webapp"))] == []


def test_what_brings_the_catalog_up_to_date_finds_nothing(tmp_path: Path) -> None:
    for name in ("webapp", "templates"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "static").mkdir()
    for script in (CHECKOUT / "static").glob("*.js"):
        shutil.copy(script, tmp_path / "static")
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    command = ["bash", "-euo", "pipefail", "-c", block("The tree", "sh").code]
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    catalog = Path("webapp", "locale", "zh_CN", "LC_MESSAGES", "exportdesk.po")
    told = [
        {(str(message.id), str(message.string)) for message in read_po(BytesIO(path.read_bytes())) if message.id}
        for path in (CHECKOUT / catalog, tmp_path / catalog)
    ]
    assert told[1] <= told[0]


def test_the_second_command_is_what_ci_runs() -> None:
    _, installs, checks = block("Check it", "sh").code.split(" && ")
    ci = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8").replace('"', "")
    assert installs.removeprefix(".venv/bin/pip install ") in ci
    assert checks.strip().removeprefix(".venv/") in ci


@dataclass(frozen=True, slots=True)
class Desk:
    """`exportdesk up` with the demo, started by the README's first command in `folder`."""

    folder: Path
    port: int
    environ: Mapping[str, str]

    @property
    def calls(self) -> list[str]:
        """What the stand-ins were asked for."""
        return (self.folder / "calls.txt").read_text().splitlines()


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes], output: Path, **choices: object) -> None:
    deadline = time.monotonic() + STARTING_SECONDS
    while True:
        assert process.poll() is None, output.read_text()
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, **choices).status_code == 200:  # type: ignore[arg-type]
                return
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.1)


@contextlib.contextmanager
def running(
    command: Sequence[str], url: str, folder: Path, environ: Mapping[str, str], **choices: object
) -> Iterator[Path]:
    """Until it answers at `url`; where its output goes."""
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=file, stderr=file)
    try:
        wait_until_it_answers(url, process, output, **choices)
        yield output
    finally:
        supervisor = re.search(r"^supervisor +(\d+) ", output.read_text(), re.M)
        os.kill(int(supervisor[1]) if supervisor else process.pid, signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder, port = tmp_path_factory.mktemp("checkout"), free_port()
    (folder / "bin").mkdir()
    for name, script in STAND_INS.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    environ = environment(folder / "data", PORT=str(port), BASE_URL=f"http://localhost:{port}")
    environ |= {"PATH": f"{folder / 'bin'}:{environ['PATH']}"}
    command = ["bash", "-c", block("Start it", "sh").code]
    with running(command, f"http://127.0.0.1:{port}/readyz", folder, environ) as output:
        while "Ctrl-C stops everything." not in output.read_text():
            time.sleep(0.1)
        assert re.search(rf"http://localhost:{port}/sign-in/once/[\w-]+", output.read_text())
        yield Desk(folder, port, environ)


def script_of(blocks: Sequence[Block], desk: Desk) -> str:
    parts = ["set -euo pipefail\n"]
    for number, each in enumerate(blocks):
        code = each.code.replace("localhost:8000", f"localhost:{desk.port}").replace("/opt/exportdesk", ".venv")
        if each.language == "python":
            (desk.folder / "block.py").write_text(code)
            code = "python -W error block.py\n"
        parts += [f"printf '\\n@@{number}\\n'\n", code]
    return "".join(parts)


def test_what_is_run_runs(desk: Desk) -> None:
    """One block after another in one shell, as a reader would; the key is that of the restored copy."""
    make_air(desk.folder / "air.db")
    config = block("Your own data", "toml").code.replace("/srv/air.db", str(desk.folder / "air.db"))
    (desk.folder / "exportdesk.toml").write_text(config)
    blocks = [each for each, (_, _, how) in zip(BLOCKS, TESTED, strict=True) if how == "runs"]
    assert blocks[-1].heading == "Rotate the key"
    script = script_of(blocks[:-1], desk) + "export EXPORTDESK_DATA_DIR=./again\n" + blocks[-1].code
    (desk.folder / "readme.sh").write_text(script)
    with (desk.folder / "told.txt").open("wb") as told:
        done = subprocess.run(
            ["bash", "readme.sh"],
            cwd=desk.folder,
            env=desk.environ,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            timeout=RUNNING_SECONDS,
        )
    assert done.returncode == 0, (desk.folder / "told.txt").read_text(errors="replace")[-2000:]

    export = json.loads((desk.folder / "export.json").read_text())
    assert (export["status"], export["params"]["country"]) == ("SUCCESS", "DE")
    assert (desk.folder / export["file"]["name"]).stat().st_size == export["file"]["size"]
    assert (desk.folder / "orders.csv").stat().st_size == export["file"]["size"]
    assert (desk.folder / "orders.xlsx").stat().st_size > 10_000
    assert json.loads((desk.folder / "endpoint.json").read_text())["secret"].startswith("whsec_")
    assert json.loads((desk.folder / "exportdesk-grafana.json").read_text())["panels"]
    assert (desk.folder / "again" / "exportdesk.db").stat().st_size > 0
    assert "pip install -c constraints.txt ." in desk.calls
    known = {re.sub(r"@?\.service$", "", name) for name in unit_files()}
    asked = [name for call in desk.calls if call.startswith("systemctl") for name in UNITS.findall(call)]
    assert {name.split("@")[0] for name in asked} == known


def make_air(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE flights (origin TEXT, carrier TEXT, day DATE)")
        connection.execute("CREATE TABLE airlines (code TEXT, name TEXT)")
        connection.execute("INSERT INTO airlines VALUES ('UA', 'United')")
    connection.close()


@pytest.mark.parametrize("heading", ["Your own data", "Everything a dataset can say"])
def test_datasets_are_right(heading: str, tmp_path: Path) -> None:
    make_air(tmp_path / "air.db")
    path = tmp_path / "exportdesk.toml"
    path.write_text(block(heading, "toml").code.replace("/srv/air.db", str(tmp_path / "air.db")))
    assert check_catalog(load_catalog(path, {}), path) == []


@pytest.mark.postgres
def test_the_role_for_postgresql_reads_and_nothing_else(empty_postgres: str, tmp_path: Path) -> None:
    role, url = f"desk_reader_{secrets.token_hex(6)}", urlsplit(empty_postgres)
    statements = block("A PostgreSQL source", "sql").code.replace("desk_reader", role)
    address = f"{url.hostname}:{url.port or 5432}{url.path}"
    text = block("A PostgreSQL source", "toml").code.replace("desk_reader", role)
    assert "@db.internal/air" in text
    path = tmp_path / "exportdesk.toml"
    path.write_text(text.replace("@db.internal/air", f"@{address}"))
    with psycopg.connect(empty_postgres, autocommit=True) as owner:
        owner.execute("CREATE TABLE flights (day date)")
        owner.execute(statements)  # type: ignore[arg-type]
        owner.execute("CREATE TABLE later (n int)")
        try:
            assert check_catalog(load_catalog(path, {"AIR_PASSWORD": "a-long-password"}), path) == []
            with psycopg.connect(f"postgresql://{role}:a-long-password@{address}", autocommit=True) as reader:
                assert reader.execute("SELECT * FROM later").fetchall() == []
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute("DELETE FROM flights")
        finally:
            owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "code", [each.code for each in BLOCKS if each.language == "ini" and "[Service]" not in each.code]
)
def test_settings_can_be_read(code: str, tmp_path: Path) -> None:
    """A name that stands there twice is one choice of several. Files that are named are made."""
    (tmp_path / "file").write_text("secret")
    for path in ("/etc/exportdesk.toml", "/run/secrets/s3", "/etc/ssl/kafka.pem"):
        code = code.replace(path, str(tmp_path / "file"))
    code = code.replace("/var/lib/exportdesk", str(tmp_path))
    pairs = [line.split("=", 1) for line in code.splitlines() if not line.startswith("#")]
    source = (CHECKOUT / "webapp" / "settings.py").read_text(encoding="utf-8")
    for number, (name, value) in enumerate(pairs):
        assert name.startswith("AWS_") or f'"{name.removeprefix("EXPORTDESK_")}"' in source
        others = dict(pairs[:number] + pairs[number + 1 :])
        read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path), **others, name: value})


def unit_files() -> dict[str, str]:
    """By name, with the one that is described as like another."""
    units = [each.code for each in BLOCKS if each.heading == "systemd" and each.language == "ini"]
    files = {re.match(r"# /etc/systemd/system/(\S+\.service)", code)[1]: code for code in units}  # type: ignore[index]
    exports = files["exportdesk-exports@.service"]
    assert "exportdesk-callbacks.service is the same but for the last word of ExecStart" in exports
    return files | {"exportdesk-callbacks.service": exports.replace("worker exports\n", "worker callbacks\n")}


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        missing("systemd-analyze")
    command = re.compile(r"ExecStart=/opt/exportdesk/bin/exportdesk (.+)")
    for name, text in unit_files().items():
        [arguments] = command.findall(text)
        parser().parse_args(shlex.split(arguments))
        program = shutil.which("true")
        (tmp_path / name).write_text(command.sub(rf"ExecStart={program} \1", text))
    paths = [str(tmp_path / name) for name in unit_files()]
    done = subprocess.run([str(analyze), "verify", "--man=no", *paths], capture_output=True, text=True, timeout=30)
    assert (done.returncode, [line for line in done.stderr.splitlines() if str(tmp_path) in line]) == (0, [])
    asked = UNITS.findall(block("systemd", "sh", 1).code)
    assert {re.sub(r"@\d+", "@", name) + ".service" for name in asked} == set(unit_files())


def test_processes_are_commands() -> None:
    for line in block("In production", "sh").commands:
        program, *arguments = shlex.split(line)
        assert program == "exportdesk"
        parser().parse_args(arguments)


def behind(code: str, desk: Desk) -> str:
    return re.sub(r"127\.0\.0\.1:800[12]", f"127.0.0.1:{desk.port}", code)


def test_nginx_serves_a_desk(desk: Desk, tmp_path: Path) -> None:
    if not NGINX.exists():
        missing("nginx")
    port = free_port()
    make_certificate(tmp_path)
    site = behind(block("nginx", "nginx").code, desk).replace("listen 443", f"listen 127.0.0.1:{port}")
    site = site.replace("/etc/ssl/exports.example.com.pem", str(tmp_path / "certificate.pem"))
    site = site.replace("/etc/ssl/exports.example.com.key", str(tmp_path / "key.pem"))
    paths = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    site = f"access_log off; client_body_temp_path {tmp_path}/body; {paths}\n{site}"
    head = f"master_process off; daemon off; pid {tmp_path}/nginx.pid; error_log stderr; events {{}}\n"
    (tmp_path / "nginx.conf").write_text(f"{head}http {{ {site} }}")
    command = [str(NGINX), "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=30)
    assert "test is successful" in checked.stderr
    trust = {"verify": ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))}
    with running(command, f"https://127.0.0.1:{port}/healthz", tmp_path, os.environ, **trust):
        pass


def test_caddy_serves_a_desk(desk: Desk, tmp_path: Path) -> None:
    caddy = shutil.which("caddy")
    if caddy is None:
        missing("caddy")
    port, path = free_port(), tmp_path / "Caddyfile"
    environ = os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    command = [str(caddy), "run", "--config", str(path), "--adapter", "caddyfile"]
    site = behind(block("Caddy", "caddy").code, desk)
    path.write_text(site)
    adapted = [str(caddy), "adapt", "--config", str(path), "--adapter", "caddyfile", "--validate"]
    checked = subprocess.run(adapted, env=environ, capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stderr
    path.write_text("{\n admin off\n}\n" + site.replace("exports.example.com", f"http://127.0.0.1:{port}"))
    with running(command, f"http://127.0.0.1:{port}/healthz", tmp_path, environ):
        pass


def test_compose_starts_what_there_is() -> None:
    """The plugin of docker that knows such files cannot be had from Debian, so this reads it as YAML."""
    compose = yaml.safe_load(block("compose", "yaml").code)
    services = compose["services"]
    assert set(compose["volumes"]) == {"db"}
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        if "command" in service:
            program, *arguments = shlex.split(service["command"])
            assert program == "exportdesk"
            parser().parse_args(arguments)
    install = compose["x-desk"]["build"]["dockerfile_inline"]
    assert "-c /src/constraints.txt" in install


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        missing("promtool (Debian's package prometheus)")
    (tmp_path / "prometheus.yml").write_text(block("Monitoring", "yaml").code)
    (tmp_path / "exportdesk-alerts.yml").write_text(content("alerts"))
    command = [str(promtool), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.postgres
def test_postgresql_is_saved_and_restored(migrated_postgres: str, empty_postgres: str, tmp_path: Path) -> None:
    if not (shutil.which("pg_dump") and shutil.which("pg_restore")):
        missing("pg_dump or pg_restore")
    environ = os.environ | {"EXPORTDESK_DATABASE_URL": migrated_postgres, "NEW_DATABASE_URL": empty_postgres}
    command = ["bash", "-euo", "pipefail", "-c", block("Back it up", "sh", 1).code]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
    with psycopg.connect(migrated_postgres) as old, psycopg.connect(empty_postgres) as new:
        assert new.execute(tables).fetchone() == old.execute(tables).fetchone() != (0,)
