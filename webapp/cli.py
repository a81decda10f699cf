"""The `exportdesk` command. Every command is imported when it runs, so that none pays for the others."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from webapp.commands.export_codes import EXIT_CODES
from webapp.commands.failures import run_explained
from webapp.settings import read_settings

ROLES = ("user", "admin")
Arguments = argparse.Namespace
Commands = Any
"""argparse gives its collection of subcommands no public type."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 a problem was found, 2 the command or the configuration has to be changed."""
    arguments = parser().parse_args(argv)
    return run_explained(lambda: arguments.run(arguments))


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="exportdesk",
        description="A self-hosted export desk: order data exports, watch them, download files that are right.",
        epilog="Settings are environment variables, EXPORTDESK_…; the README lists them.",
    )
    root.add_argument("--version", action="version", version=f"exportdesk {version()}")
    commands = root.add_subparsers(metavar="COMMAND", required=True, title="commands")
    _add_processes(commands)
    _add_people(commands)
    _add_tokens(commands)
    _add_exports(commands)
    _add_care(commands)
    return root


def version() -> str:
    try:
        return importlib.metadata.version("exportdesk")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _command(commands: Commands, name: str, run: Callable[[Arguments], int], text: str, more: str = "") -> Any:
    """A subcommand whose help is one line in the list and `more` besides on its own page."""
    description = f"{text[0].upper()}{text[1:]}. {more}".strip()
    command = commands.add_parser(name, help=text, description=description)
    command.set_defaults(run=run)
    return command


def _group(commands: Commands, name: str, text: str) -> Commands:
    group = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    return group.add_subparsers(metavar="COMMAND", required=True, title="commands")


def _add_processes(commands: Commands) -> None:
    _command(
        commands, "up", _up, "run everything on this machine: broker, web, workers",
        "Migrates, makes demo data and the first admin on the first run, and prints a one-time sign-in link. "
        "Ctrl-C stops everything.",
    )  # fmt: skip
    _command(commands, "web", _web, "run one web process")
    worker = _command(commands, "worker", _worker, "run a worker process")
    worker.add_argument(
        "name",
        nargs="?",
        choices=("exports", "callbacks", "all"),
        default="all",
        help="exports executes them, callbacks does deliveries and sweeps; default: all",
    )


def _add_people(commands: Commands) -> None:
    users = _group(commands, "user", "add, list and change users")
    add = _command(users, "add", _add_user, "add a user", "Without a password it prints a one-time sign-in link.")
    add.add_argument("name", metavar="NAME")
    add.add_argument("--role", choices=ROLES, default="user", help="default: user")
    add.add_argument("--password-stdin", action="store_true", help="take the password from the first line of stdin")
    _command(users, "list", _list_users, "list all users")
    role = _command(users, "role", _set_role, "give a user another role")
    role.add_argument("name", metavar="NAME")
    role.add_argument("role", choices=ROLES)
    password = _command(users, "password", _set_password, "set a user's password", "Ends the user's sessions.")
    password.add_argument("name", metavar="NAME")
    password.add_argument("--password-stdin", action="store_true", help="do not ask: take the first line of stdin")


def _add_tokens(commands: Commands) -> None:
    tokens = _group(commands, "token", "create, list and revoke API tokens")
    create = _command(
        tokens, "create", _create_token, "create an API token", "The token stands alone on the last line of the output."
    )
    create.add_argument("--user", required=True, metavar="NAME", help="whom the token acts as")
    create.add_argument("--name", required=True, help="what it is for, 1 to 100 characters")
    _command(tokens, "list", _list_tokens, "list all API tokens")
    revoke = _command(tokens, "revoke", _revoke_token, "end an API token")
    revoke.add_argument("id", metavar="ID", help="tok_…, as `token list` shows it")


def _add_exports(commands: Commands) -> None:
    export = _command(
        commands, "export", _export, "order an export of a desk, wait for it and save the file",
        "\nA client of the HTTP API: it needs an address and a token, and works from any machine.",
    )  # fmt: skip
    export.formatter_class, export.epilog = argparse.RawDescriptionHelpFormatter, EXIT_CODES
    export.add_argument("dataset", metavar="DATASET", nargs="?", help="what to export")
    export.add_argument("--format", help="csv, xlsx, jsonl or parquet; default: what FILE ends with, else csv")
    export.add_argument("--param", dest="params", action="append", default=[], metavar="NAME=VALUE",
                        help="a parameter of the dataset; repeat it for a list")  # fmt: skip
    export.add_argument("--option", dest="options", action="append", default=[], metavar="NAME=VALUE",
                        help="an option of the format: compression=gzip, bom=true, delimiter=tab")  # fmt: skip
    export.add_argument("--wait", action="store_true", help="until it is done; -o and --again wait anyway")
    export.add_argument("-o", dest="output", metavar="FILE", help="save the file here, or in this folder; - is stdout")
    export.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    export.add_argument("--again", metavar="ID", help="instead of DATASET: go on with this export (exp_…)")
    export.add_argument(
        "--quiet", action="store_true", help="no progress: only the result, errors and notes on the file"
    )
    export.add_argument("--url", help="address of the desk; default: EXPORTDESK_URL, else EXPORTDESK_BASE_URL")
    export.add_argument("--token", help="better: EXPORTDESK_TOKEN, or EXPORTDESK_TOKEN_FILE, which no `ps` shows")


def _add_care(commands: Commands) -> None:
    _command(commands, "migrate", _migrate, "bring the database to the version this release needs")
    datasets = _group(commands, "datasets", "look after the declared datasets")
    _command(
        datasets, "check", _check_datasets, "find every mistake in the datasets, with file and line",
        "Reads EXPORTDESK_CONFIG, or the demo without one, and runs each query for no rows.",
    )  # fmt: skip
    keys = _group(commands, "key", "replace the key that seals secrets, in two steps")
    _command(
        keys, "rotate", _rotate_key, "put a new key before the one in use",
        "What is sealed already stays readable. Restart everything afterwards, then run `exportdesk key finish`.",
    )  # fmt: skip
    _command(keys, "finish", _finish_key, "seal everything under the new key and drop the old one")
    backup = _command(
        commands, "backup", _backup, "save the store, its files and its key as one archive",
        "For a desk with SQLite and local files. Safe while everything runs.",
    )  # fmt: skip
    backup.add_argument("file", metavar="FILE", type=Path, help="the archive to write, such as desk.tar")
    backup.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    restore = _command(commands, "restore", _restore, "unpack a backup into a new data folder, every file verified")
    restore.add_argument("file", metavar="FILE", type=Path, help="an archive that `exportdesk backup` wrote")
    restore.add_argument("folder", metavar="FOLDER", type=Path, help="the data folder to make")
    _command(commands, "doctor", _doctor, "tell what is wrong with this set-up, and the mend")
    _command(commands, "check", _check, "lint, types and tests of a source checkout: what CI runs")


def _up(_arguments: Arguments) -> int:
    from webapp.commands.up import run_up

    return run_up(read_settings())


def _web(_arguments: Arguments) -> int:
    from webapp.commands.web import run_web

    return run_web(read_settings())


def _worker(arguments: Arguments) -> int:
    """The web side never imports the worker: this process becomes it."""
    from webapp.commands.service import python_command

    command = python_command("worker", arguments.name)
    os.execv(command[0], command)  # noqa: S606


def _add_user(arguments: Arguments) -> int:
    from webapp.commands import people

    password = people.password_from_stdin() if arguments.password_stdin else None
    return people.run_with_resources(
        read_settings(), lambda resources: people.add_user(resources, arguments.name, arguments.role, password)
    )


def _list_users(_arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(read_settings(), people.list_users)


def _set_role(arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(
        read_settings(), lambda resources: people.set_role(resources, arguments.name, arguments.role)
    )


def _set_password(arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(
        read_settings(),
        lambda resources: people.set_password(resources, arguments.name, from_stdin=arguments.password_stdin),
    )


def _create_token(arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(
        read_settings(), lambda resources: people.create_token(resources, arguments.user, arguments.name)
    )


def _list_tokens(_arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(read_settings(), people.list_tokens)


def _revoke_token(arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(read_settings(), lambda resources: people.revoke_token(resources, arguments.id))


def _export(arguments: Arguments) -> int:
    from webapp.commands import export

    given = {name: value for name, value in vars(arguments).items() if name != "run"}
    return export.run_export(export.Wanted(**given))


def _migrate(_arguments: Arguments) -> int:
    from webapp.commands.database import run_migrate

    return run_migrate(read_settings())


def _check_datasets(_arguments: Arguments) -> int:
    from webapp.commands.datasets import run_datasets_check

    return run_datasets_check(read_settings())


def _rotate_key(_arguments: Arguments) -> int:
    from webapp.commands.key import run_rotate

    return run_rotate(read_settings())


def _finish_key(_arguments: Arguments) -> int:
    from webapp.commands.key import run_finish

    return run_finish(read_settings())


def _backup(arguments: Arguments) -> int:
    from webapp.commands.backup import run_backup

    return run_backup(read_settings(), arguments.file, overwrite=arguments.force)


def _restore(arguments: Arguments) -> int:
    from webapp.commands.backup import run_restore

    return run_restore(arguments.file, arguments.folder)


def _doctor(_arguments: Arguments) -> int:
    from webapp.commands.doctor import run_doctor

    return run_doctor()


def _check(_arguments: Arguments) -> int:
    from webapp.commands.check import run_check

    return run_check()


if __name__ == "__main__":
    sys.exit(main())
