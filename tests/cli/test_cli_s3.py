"""A bucket for finished files, as the operator meets it: `doctor`, `up` and the workers say whether it can be used."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from buckets import SECRET, Bucket, failing
from buckets import bucket as bucket
from buckets import s3_server as s3_server
from cli.command_line import environment, exportdesk, write_config

DENIED = f"<Error><Code>SignatureDoesNotMatch</Code><StringToSign>{SECRET}</StringToSign></Error>"
PROBLEM = "the store refuses the secret key"
MEND = "check AWS_SECRET_ACCESS_KEY"

WORKER = (sys.executable, "-m", "worker", "exports")


@dataclass
class Set:
    environ: dict[str, str]

    async def doctor(self) -> tuple[int, str]:
        """The exit code and the line about finished files."""
        done = await asyncio.to_thread(exportdesk, "doctor", environ=self.environ)
        [line] = [line for line in done.stdout.splitlines() if "finished files" in line]
        return done.returncode, line

    async def run(self, *module: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", *module],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def desk(tmp_path: Path, shop: Path, broker: str, bucket: Bucket) -> Set:
    config = write_config(tmp_path, shop)
    url = f"s3://{bucket.name}/desk"
    return Set(environment(tmp_path / "data", CONFIG=str(config), REDIS_URL=broker, STORAGE_URL=url))


async def test_the_doctor_tries_the_bucket(desk: Set, bucket: Bucket) -> None:
    _, line = await desk.doctor()
    assert line.startswith("ok ")
    assert line.endswith(f"the bucket {bucket.name} can be written and read by signed links")
    assert await bucket.keys() == []


async def test_the_doctor_says_what_is_wrong_with_the_credentials(desk: Set, bucket: Bucket) -> None:
    bucket.fault = failing(403, lambda request: True, body=DENIED)
    code, line = await desk.doctor()
    assert code == 1
    assert line.endswith(f"{PROBLEM} → {MEND}")


async def test_up_does_not_begin_without_its_bucket(desk: Set, bucket: Bucket) -> None:
    bucket.fault = failing(403, lambda request: True, body=DENIED)
    done = await desk.run("webapp.commands.prepare")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Finished files: {PROBLEM}. To mend it: {MEND}.\n"


async def test_a_worker_says_it_and_waits_for_better_times(desk: Set, bucket: Bucket, tmp_path: Path) -> None:
    assert (await desk.run("webapp.cli", "migrate")).returncode == 0
    bucket.fault = failing(403, lambda request: True, body=DENIED)
    with subprocess.Popen(WORKER, env=desk.environ, stderr=subprocess.PIPE, text=True) as worker:
        try:
            lines = await asyncio.to_thread(lines_until, worker, PROBLEM)
        finally:
            worker.kill()
    assert lines[-1].endswith(f"finished files cannot be stored: {PROBLEM}. To mend it: {MEND}\n")
    assert SECRET not in "".join(lines)


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """What it writes, up to the line with this text or to its end."""
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if text in line:
            break
    return lines
