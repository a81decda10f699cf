"""The `exportdesk` command. Every command is imported when it runs, so that none pays for the others."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from webapp.commands.export_codes import EXIT_CODES
from webapp.commands.failures import run_explained
from webapp.release import version
from webapp.settings import parse_duration, read_settings

ROLES = ("user", "admin")
QUEUES = ("exports", "callbacks")
SCOPES = ("read", "export", "callbacks", "admin")
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
    _add_work(commands)
    _add_people(commands)
    _add_groups(commands)
    _add_tokens(commands)
    _add_exports(commands)
    _add_care(commands)
    return root


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


def _add_work(commands: Commands) -> None:
    workers = _group(commands, "workers", "list and drain worker processes")
    _command(workers, "list", _list_workers, "list the workers of the last hour")
    drain = _command(
        workers, "drain", _drain_worker, "let a worker finish what it has and end",
        "It takes nothing new. What is not finished in time is handed back.",
    )  # fmt: skip
    drain.add_argument("id", metavar="ID", help="wrk_…, as `workers list` shows it")
    drain.add_argument("--within", default="10m", help="10m, 1h; default: 10m")
    keep = _command(workers, "keep", _keep_worker, "take a drain back")
    keep.add_argument("id", metavar="ID")
    queues = _group(commands, "queue", "pause and resume the work on exports, or on callbacks")
    _command(queues, "list", _list_queues, "tell which are paused")
    for name, run, text in (
        ("pause", _pause_queue, "start nothing new; orders are still taken"),
        ("resume", _resume_queue, "go on"),
    ):
        _command(queues, name, run, text).add_argument("name", choices=QUEUES)


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
    for name, text in (
        ("disable", "sign a user out everywhere and refuse their tokens"),
        ("enable", "let a disabled user in again"),
        ("reset", "end a user's password and print a one-time link to choose a new one"),
    ):
        _command(users, name, _administer, text).add_argument("name", metavar="NAME")
    delete = _command(users, "delete", _administer, "delete a user with exports, files and tokens")
    delete.add_argument("name", metavar="NAME")
    delete.add_argument("--yes", action="store_true", required=True, help="it cannot be undone")
    for command in ("disable", "enable", "reset", "delete"):
        users.choices[command].set_defaults(command=command)
    password = _command(users, "password", _set_password, "set a user's password", "Ends the user's sessions.")
    password.add_argument("name", metavar="NAME")
    password.add_argument("--password-stdin", action="store_true", help="do not ask: take the first line of stdin")


def _add_groups(commands: Commands) -> None:
    groups = _group(commands, "group", "put users into groups, to grant them datasets together")
    _command(groups, "list", _group_command, "list all groups with their members")
    for name, text in (("add", "make a group"), ("delete", "delete a group; its members stay")):
        _command(groups, name, _group_command, text).add_argument("group", metavar="GROUP")
    for name, text in (("join", "put a user into a group"), ("leave", "take a user out of a group")):
        command = _command(groups, name, _group_command, text)
        command.add_argument("group", metavar="GROUP")
        command.add_argument("user", metavar="USER")
    grants = _group(commands, "grant", "say to whom datasets are granted")
    _command(grants, "list", _grant_command, "list the datasets and who may use them")
    for name, text in (
        ("add", "grant a dataset: from then on only holders of a grant and admins may use it"),
        ("withdraw", "withdraw it again; the dataset stays withheld from everybody else"),
    ):
        command = _command(grants, name, _grant_command, text)
        command.add_argument("dataset", metavar="DATASET")
        whom = command.add_mutually_exclusive_group(required=True)
        whom.add_argument("--user", metavar="NAME")
        whom.add_argument("--group", metavar="NAME")
    opening = _command(grants, "open", _grant_command, "withdraw all, so that its roles alone decide again")
    opening.add_argument("dataset", metavar="DATASET")
    for each in (groups, grants):
        for name, command in each.choices.items():
            command.set_defaults(command=name)


def _add_tokens(commands: Commands) -> None:
    tokens = _group(commands, "token", "create, list and revoke API tokens")
    create = _command(
        tokens, "create", _create_token, "create an API token", "The token stands alone on the last line of the output."
    )
    create.add_argument("--user", required=True, metavar="NAME", help="whom the token acts as")
    create.add_argument("--name", required=True, help="what it is for, 1 to 100 characters")
    create.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        choices=SCOPES,
        help="what it is good for; repeat it for several; default: all",
    )
    create.add_argument("--lifetime", metavar="30d", help="how long it lasts; default: until it is revoked")
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
    export.add_argument("--columns", metavar="NAME,NAME",
                        help="the columns of the file, in its order; default: all that the dataset has")  # fmt: skip
    export.add_argument("--name", metavar="TEXT", help="what to call the export")
    export.add_argument("--note", metavar="TEXT", help="what to note about it")
    export.add_argument("--wait", action="store_true", help="until it is done; -o and --again wait anyway")
    export.add_argument("-o", dest="output", metavar="FILE", help="save the file here, or in this folder; - is stdout")
    export.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    export.add_argument("--saved", metavar="NAME", help="instead of DATASET: order this saved order of yours")
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
    monitoring = _group(commands, "monitoring", "print what other programs watch the desk with")
    for name, text in (("alerts", "alerting rules for Prometheus"), ("grafana", "a dashboard for Grafana")):
        _command(monitoring, name, _monitoring, text).set_defaults(name=name)
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


def _list_workers(_arguments: Arguments) -> int:
    from webapp.commands import people, workers

    return people.run_with_resources(read_settings(), workers.list_workers)


def _drain_worker(arguments: Arguments) -> int:
    from webapp.commands import people, workers
    from webapp.commands.failures import Failure

    try:
        within = parse_duration(arguments.within)
    except ValueError as error:
        raise Failure(f"--within: {error}.") from None
    return people.run_with_resources(read_settings(), lambda resources: workers.drain(resources, arguments.id, within))


def _keep_worker(arguments: Arguments) -> int:
    from webapp.commands import people, workers

    return people.run_with_resources(read_settings(), lambda resources: workers.keep(resources, arguments.id))


def _list_queues(_arguments: Arguments) -> int:
    from webapp.commands import people, workers

    return people.run_with_resources(read_settings(), workers.list_queues)


def _pause_queue(arguments: Arguments) -> int:
    from webapp.commands import people, workers

    return people.run_with_resources(read_settings(), lambda resources: workers.pause(resources, arguments.name))


def _resume_queue(arguments: Arguments) -> int:
    from webapp.commands import people, workers

    return people.run_with_resources(read_settings(), lambda resources: workers.resume(resources, arguments.name))


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


def _administer(arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(
        read_settings(), lambda resources: people.administer(resources, arguments.command, arguments.name)
    )


def _group_command(arguments: Arguments) -> int:
    from webapp.commands import groups, people

    given = {name: getattr(arguments, name, "") for name in ("command", "group", "user")}
    return people.run_with_resources(read_settings(), lambda resources: groups.run_group(resources, **given))


def _grant_command(arguments: Arguments) -> int:
    from webapp.commands import groups, people

    given = {name: getattr(arguments, name, None) or "" for name in ("command", "dataset", "user", "group")}
    return people.run_with_resources(read_settings(), lambda resources: groups.run_grant(resources, **given))


def _create_token(arguments: Arguments) -> int:
    from webapp.commands import people

    return people.run_with_resources(
        read_settings(),
        lambda resources: people.create_token(
            resources, arguments.user, arguments.name, scopes=arguments.scopes or SCOPES, lifetime=arguments.lifetime
        ),
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


def _monitoring(arguments: Arguments) -> int:
    from webapp.commands.monitoring import run_monitoring

    return run_monitoring(arguments.name)


def _doctor(_arguments: Arguments) -> int:
    from webapp.commands.doctor import run_doctor

    return run_doctor()


def _check(_arguments: Arguments) -> int:
    from webapp.commands.check import run_check

    return run_check()


if __name__ == "__main__":
    sys.exit(main())
