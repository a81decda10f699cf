"""`exportdesk datasets check`: every mistake in the declared datasets, with file and line."""

from __future__ import annotations

from webapp.commands.failures import EXIT_PROBLEM
from webapp.datasets.catalog import DEMO, check_catalog
from webapp.datasets.declaration import BadCatalog, Catalog, Problem
from webapp.resources import is_demo, open_catalog
from webapp.settings import Settings
from webapp.web.words import counted


def run_datasets_check(settings: Settings) -> int:
    """1 when anything is wrong. Reads the file and runs each query for no rows."""
    try:
        catalog = open_catalog(settings)
    except BadCatalog as error:
        return _report(error.problems)
    problems = answer_problems(catalog, settings)
    if problems:
        return _report(problems)
    print(f"{counted(len(catalog.datasets), 'dataset')}, all good.")
    return 0


def answer_problems(catalog: Catalog, settings: Settings) -> list[Problem]:
    return check_catalog(catalog, DEMO if is_demo(settings) else settings.catalog_file)


def _report(problems: list[Problem]) -> int:
    for problem in problems:
        print(f"{problem.file}:{problem.line}: {problem.message}")
    print(f"{counted(len(problems), 'problem')}.")
    return EXIT_PROBLEM
