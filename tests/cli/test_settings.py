"""Settings from the environment: what is read, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.settings import BadSettings, Settings, read_settings


def settings(tmp_path: Path, **given: str) -> Settings:
    return read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path), **{f"EXPORTDESK_{k}": v for k, v in given.items()}})


def test_lists_are_split_at_commas(tmp_path):
    found = settings(tmp_path, TRUSTED_PROXIES="10.0.0.1, fd00::/8", CALLBACK_ALLOW_PRIVATE="10.1.0.0/16,hooks:8080,")
    assert found.trusted_proxies == ("10.0.0.1", "fd00::/8")
    assert found.callback_allow_private == ("10.1.0.0/16", "hooks:8080")


def test_every_mistake_is_named_at_once(tmp_path):
    with pytest.raises(BadSettings) as caught:
        settings(tmp_path, TRUSTED_PROXIES="proxy", CALLBACK_ALLOW_PRIVATE="10.1.0.0/99,hooks", SECRET_KEY="short")
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "EXPORTDESK_SECRET_KEY",
        "EXPORTDESK_CALLBACK_ALLOW_PRIVATE",
        "EXPORTDESK_CALLBACK_ALLOW_PRIVATE",
        "EXPORTDESK_TRUSTED_PROXIES",
    ]


def test_the_key_is_made_once_and_is_readable_by_its_owner_alone(tmp_path):
    [key] = settings(tmp_path).secret_keys
    assert settings(tmp_path).secret_keys == (key,)
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


def test_after_a_rotation_the_first_key_is_the_new_one(tmp_path):
    assert settings(tmp_path, SECRET_KEY=f"{'n' * 16} {'o' * 16}").secret_keys == ("n" * 16, "o" * 16)


def test_no_secret_is_in_what_settings_look_like(tmp_path):
    assert "n" * 16 not in repr(settings(tmp_path, SECRET_KEY="n" * 16))


@pytest.mark.parametrize("url", ["s3://files", "s3://files/desk/one", "file:///srv/files"])
def test_where_files_are_kept(tmp_path, url):
    assert settings(tmp_path, STORAGE_URL=url).storage_url == url


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3:///prefix", "write it as s3://bucket/prefix"),
        ("s3://UPPER", "write it as s3://bucket/prefix"),
        ("s3://key:hush@files", "credentials belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("ftp://files", "must start with file:// or s3://"),
    ],
)
def test_where_they_cannot_be_kept(tmp_path, url, told):
    with pytest.raises(BadSettings) as caught:
        settings(tmp_path, STORAGE_URL=url)
    assert caught.value.problems == [f"EXPORTDESK_STORAGE_URL: {told}"]


def test_credentials_of_a_bucket_may_be_in_files(tmp_path):
    (tmp_path / "secret").write_text("of the file\n")
    path = str(tmp_path / "secret")
    given = {"AWS_SECRET_ACCESS_KEY_FILE": path, "AWS_ACCESS_KEY_ID_FILE": path, "AWS_ACCESS_KEY_ID": "of the variable"}
    found = read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path), **given, "AWS_ALLOW_HTTP": "true"})
    assert (dict(found.s3_credentials), found.s3_allow_http) == ({"secret_access_key": "of the file"}, True)
    with pytest.raises(BadSettings, match="AWS_SESSION_TOKEN_FILE: cannot read"):
        read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path), "AWS_SESSION_TOKEN_FILE": str(tmp_path / "none")})
