"""`exportdesk user …` and `exportdesk token …`."""

from __future__ import annotations

import asyncio
import io
import re

import pytest
from command_line import write_config

from webapp.actions import people
from webapp.cli import main
from webapp.resources import open_resources
from webapp.settings import read_settings


@pytest.fixture
def desk(tmp_path, monkeypatch, shop):
    """Settings of a migrated desk that the commands of this test use."""
    config = write_config(tmp_path, shop)
    for name, value in {"DATA_DIR": tmp_path, "CONFIG": config, "BASE_URL": "http://desk.test"}.items():
        monkeypatch.setenv(f"EXPORTDESK_{name}", str(value))
    assert main(["migrate"]) == 0
    return read_settings()


@pytest.fixture
def run(desk, capsys, monkeypatch):
    """Runs a command; gives back (exit code, lines of stdout, lines of stderr)."""
    capsys.readouterr()

    def run(*arguments: str, stdin: str = "") -> tuple[int, list[str], list[str]]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out.splitlines(), shown.err.splitlines()

    return run


def ask(desk, question):
    async def run():
        async with open_resources(desk) as resources:
            return await question(resources)

    return asyncio.run(run())


def test_a_user_without_a_password_gets_a_link_that_works_once(desk, run):
    code, out, _ = run("user", "add", "ana", "--role", "admin")
    assert code == 0
    link = re.fullmatch(r"http://desk\.test/sign-in/once/([\w-]+)", out[-1])
    assert link is not None
    assert ask(desk, lambda resources: people.sign_in_once(resources, link[1])) is not None
    assert ask(desk, lambda resources: people.sign_in_once(resources, link[1])) is None


def test_a_user_with_a_password_from_stdin(desk, run):
    code, out, _ = run("user", "add", "bo", "--password-stdin", stdin="a long password\n")
    assert (code, out) == (0, ["Added the user bo with the role user."])
    assert ask(desk, lambda resources: people.sign_in(resources, "bo", "a long password")) is not None


def test_users_are_listed_with_role_and_password(run):
    run("user", "add", "ana", "--role", "admin")
    run("user", "add", "bo", "--password-stdin", stdin="a long password\n")
    _, out, _ = run("user", "list")
    assert [line.split()[:3] for line in out] == [
        ["NAME", "ROLE", "PASSWORD"],
        ["ana", "admin", "no"],
        ["bo", "user", "yes"],
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["user", "add", "ana"], "There is a user named ana already."),
        (["user", "add", "-"], "A name has 1 to 63 letters"),
        (["user", "add", "bo", "--password-stdin"], "A password has 10 to 200 characters."),
        (["user", "role", "nobody", "admin"], "There is no user named nobody."),
        (["user", "password", "nobody"], "There is no user named nobody."),
        (["user", "password", "ana"], "There is no terminal to ask for the password."),
        (["token", "create", "--user", "nobody", "--name", "x"], "There is no user named nobody."),
        (["token", "create", "--user", "ana", "--name", ""], "A token's name has 1 to 100 characters."),
        (["token", "revoke", "tok_nothing"], "There is no token tok_nothing in force."),
    ],
)
def test_mistakes_get_one_sentence(arguments, sentence, run):
    run("user", "add", "ana")
    code, out, err = run(*arguments, stdin="short\n")
    assert (code, out, len(err)) == (2, [], 1)
    assert err[0].startswith(sentence)


def test_a_new_password_ends_the_sessions(desk, run):
    run("user", "add", "bo", "--password-stdin", stdin="a long password\n")
    session = ask(desk, lambda resources: people.sign_in(resources, "bo", "a long password"))
    code, *_ = run("user", "password", "bo", "--password-stdin", stdin="a longer password\n")
    assert code == 0
    assert ask(desk, lambda resources: people.viewer_of_session(resources, session.token)) is None
    assert ask(desk, lambda resources: people.sign_in(resources, "bo", "a longer password")) is not None


def test_a_role_can_be_changed(run):
    run("user", "add", "ana")
    assert run("user", "role", "ana", "admin") == (0, ["ana now has the role admin."], [])
    assert run("user", "list")[1][1].split()[1] == "admin"


def test_the_token_stands_alone_on_the_last_line_until_it_is_revoked(desk, run):
    run("user", "add", "ana", "--role", "admin")
    _, out, _ = run("token", "create", "--user", "ana", "--name", "night job")
    token = out[-1]
    assert re.fullmatch(r"exd_[\w-]{43}", token)
    assert ask(desk, lambda resources: people.viewer_of_token(resources, token)).name == "ana"
    _, listed, _ = run("token", "list")
    token_id, *rest = listed[1].split()
    assert rest[:3] == ["ana", "night", "job"]
    assert token not in "".join(listed)
    assert run("token", "revoke", token_id)[0] == 0
    assert ask(desk, lambda resources: people.viewer_of_token(resources, token)) is None
    assert run("token", "revoke", token_id)[0] == 2


def test_users_are_disabled_let_in_reset_and_deleted(desk, run):
    run("user", "add", "ana", "--role", "admin")
    run("user", "add", "bo", "--password-stdin", stdin="a long password\n")
    assert run("user", "disable", "bo")[0] == 0
    assert ask(desk, lambda resources: people.sign_in(resources, "bo", "a long password")) is None
    run("user", "enable", "bo")
    assert ask(desk, lambda resources: people.sign_in(resources, "bo", "a long password")) is not None
    _, out, _ = run("user", "reset", "bo")
    assert out[-1].startswith("http://desk.test/sign-in/once/")
    assert run("user", "delete", "bo", "--yes")[0] == 0
    assert run("user", "disable", "bo")[2] == ["There is no user named bo. See: exportdesk user list"]
    code, _, err = run("user", "disable", "ana")
    assert (code, err) == (2, ["ana is the only admin. Make somebody else an admin first."])


def test_groups_and_grants(run):
    run("user", "add", "ana")
    run("group", "add", "Readers")
    assert run("group", "join", "Readers", "ana")[1] == ["ana is in the group Readers."]
    assert [line.split() for line in run("group", "list")[1]] == [["GROUP", "MEMBERS"], ["Readers", "ana"]]
    run("grant", "add", "one", "--group", "Readers")
    assert next(line for line in run("grant", "list")[1] if line.startswith("one ")).endswith("group Readers")
    run("grant", "withdraw", "one", "--group", "Readers")
    assert next(line for line in run("grant", "list")[1] if line.startswith("one ")).endswith("nobody but admins")
    assert run("grant", "withdraw", "one", "--user", "ana")[0] == 2
    run("grant", "open", "one")
    assert next(line for line in run("grant", "list")[1] if line.startswith("one ")).endswith("–")
    assert run("group", "join", "Writers", "ana")[0] == 2
    assert run("grant", "add", "nothing", "--user", "ana")[0] == 2


def test_a_token_with_scopes_and_an_end(desk, run):
    run("user", "add", "ana")
    _, out, _ = run("token", "create", "--user", "ana", "--name", "n", "--scope", "read", "--lifetime", "1d")
    assert ask(desk, lambda resources: people.viewer_of_token(resources, out[-1])).scopes == {"read"}
    _, listed, _ = run("token", "list")
    assert listed[0].split("  ")[0] == "ID"
    assert " read " in listed[1]
    assert listed[1].count("Z") == 3, "created, last used, ends"
    assert run("token", "create", "--user", "ana", "--name", "n", "--lifetime", "soon")[0] == 2
