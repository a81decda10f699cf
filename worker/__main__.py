"""`python -m worker exports|callbacks|all`: one worker process. `exportdesk worker` becomes this."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import uvloop

from webapp import logs
from webapp.commands.failures import Failure, run_explained
from webapp.settings import read_settings
from worker.main import WORKERS, run_workers


def main(arguments: Sequence[str]) -> int:
    names = tuple(WORKERS) if list(arguments) in ([], ["all"]) else tuple(arguments)
    if unknown := sorted(set(names) - set(WORKERS)):
        raise Failure(f"There is no worker named {unknown[0]}; there are: {', '.join(WORKERS)} and all.")
    settings = read_settings()
    logs.configure(settings.log_format)
    uvloop.run(run_workers(settings, names))
    return 0


if __name__ == "__main__":
    sys.exit(run_explained(lambda: main(sys.argv[1:])))
