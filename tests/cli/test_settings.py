"""Settings from the environment: what is read, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.domain.alerts import RULES, Alert
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


def test_where_the_change_log_goes(tmp_path):
    assert settings(tmp_path).event_sink is None
    (tmp_path / "sink").write_text("redis://:hush-hush@cache/2/exports\n")
    found = settings(tmp_path, EVENT_SINK_URL_FILE=str(tmp_path / "sink"))
    assert str(found.event_sink) == "the stream exports at cache:6379"
    assert "hush" not in repr(found)


def test_where_it_cannot_go(tmp_path):
    with pytest.raises(BadSettings) as caught:
        settings(tmp_path, EVENT_SINK_URL="kafka://hush@broker:0/exports", PORT="0")
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "EXPORTDESK_PORT",
        "EXPORTDESK_EVENT_SINK_URL",
        "EXPORTDESK_EVENT_SINK_URL",
    ]
    assert "hush" not in str(caught.value)
    with pytest.raises(BadSettings, match="EVENT_SINK_URL: there is no file /nowhere"):
        settings(tmp_path, EVENT_SINK_URL="kafkas://broker/exports?ca=/nowhere")


def test_credentials_of_a_bucket_may_be_in_files(tmp_path):
    (tmp_path / "secret").write_text("of the file\n")
    path = str(tmp_path / "secret")
    given = {"AWS_SECRET_ACCESS_KEY_FILE": path, "AWS_ACCESS_KEY_ID_FILE": path, "AWS_ACCESS_KEY_ID": "of the variable"}
    found = read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path), **given, "AWS_ALLOW_HTTP": "true"})
    assert (dict(found.s3_credentials), found.s3_allow_http) == ({"secret_access_key": "of the file"}, True)
    with pytest.raises(BadSettings, match="AWS_SESSION_TOKEN_FILE: cannot read"):
        read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path), "AWS_SESSION_TOKEN_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("name", "text", "alert", "value"),
    [
        ("QUEUE_TIME", "90s", Alert.QUEUE_TIME, 90.0),
        ("NOTIFICATION_LATENCY", "250ms", Alert.NOTIFICATION_LATENCY, 0.25),
        ("STORAGE", "75", Alert.STORAGE, 75),
        ("DEAD_LETTERS", "0", Alert.DEAD_LETTERS, 0),
        ("NO_WORKER", "3", Alert.NO_WORKER, 3),
        ("STUCK_EXPORTS", "off", Alert.STUCK_EXPORTS, None),
    ],
)
def test_thresholds_of_alerts(tmp_path: Path, name: str, text: str, alert: Alert, value: float | None):
    given = {"EXPORTDESK_DATA_DIR": str(tmp_path), f"EXPORTDESK_ALERT_{name}": text}
    found = read_settings(given).alerts
    assert found.get(alert) == value
    others = set(Alert) - {alert}
    assert {other: found[other] for other in others} == {other: RULES[other].usual for other in others}


@pytest.mark.parametrize(
    ("name", "text"),
    [("QUEUE_TIME", "90"), ("STORAGE", "100"), ("STORAGE", "90%"), ("NO_WORKER", "0"), ("DEAD_LETTERS", "-1")],
)
def test_thresholds_that_make_no_sense(tmp_path: Path, name: str, text: str):
    given = {"EXPORTDESK_DATA_DIR": str(tmp_path), f"EXPORTDESK_ALERT_{name}": text}
    with pytest.raises(BadSettings, match=f"EXPORTDESK_ALERT_{name}"):
        read_settings(given)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("smtp://mail", ("mail", 587, False, "offered", "", "")),
        ("smtps://desk:p%40ss@mail:4650", ("mail", 4650, True, "never", "desk", "p@ss")),
        ("smtp://desk:secret@mail", ("mail", 587, False, "required", "desk", "secret")),
        ("smtp://desk:secret@mail:25?starttls=never", ("mail", 25, False, "never", "desk", "secret")),
    ],
)
def test_the_mail_server(tmp_path, url, found):
    (tmp_path / "url").write_text(url)
    given = settings(tmp_path, SMTP_URL_FILE=str(tmp_path / "url"), SMTP_FROM="desk@example.org")
    smtp = given.smtp
    assert smtp is not None
    assert (smtp.host, smtp.port, smtp.is_tls, smtp.start_tls, smtp.user, smtp.password) == found
    assert given.mail is None, "nobody said where links lead"
    assert "secret" not in repr(given) + repr(smtp)


@pytest.mark.parametrize(
    ("url", "sender", "names"),
    [
        ("http://desk:secret@mail", "desk", ["SMTP_FROM", "SMTP_URL"]),
        ("smtp://desk:secret@mail:port", "a@b", ["SMTP_URL"]),
        ("smtp://desk:secret@", "a@b", ["SMTP_URL"]),
        ("smtp://desk:secret@mail?starttls=maybe", "a@b", ["SMTP_URL"]),
        ("smtps://desk:secret@mail?starttls=required", "a@b", ["SMTP_URL"]),
        ("", "a@b", ["SMTP_FROM"]),
        ("smtp://mail", "a@b\r\nBcc: c@d", ["SMTP_FROM"]),
    ],
)
def test_mistakes_in_the_mail_server(tmp_path, url, sender, names):
    with pytest.raises(BadSettings) as caught:
        settings(tmp_path, SMTP_URL=url, SMTP_FROM=sender)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [f"EXPORTDESK_{n}" for n in names]
    assert "secret" not in str(caught.value)
