"""What goes wrong for the person at the command line: sentences and exit codes, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from webapp.settings import BadSettings

EXIT_PROBLEM = 1
"""Something was checked and is not right, or something outside cannot be reached now."""
EXIT_USE = 2
"""The command or the configuration has to be changed before it can work."""


class Failure(Exception):
    """The sentence that says what is wrong and what to do about it."""

    def __init__(self, sentence: str, code: int = EXIT_USE) -> None:
        super().__init__(sentence)
        self.code = code


def run_explained(command: Callable[[], int]) -> int:
    """The command's exit code; what it raises is told on stderr, a line per problem."""
    try:
        return command()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except Exception as error:
        explanation = explain(error)
        if explanation is None:
            raise
        lines, code = explanation
        print(*lines, sep="\n", file=sys.stderr)
        return code


def explain(error: Exception) -> tuple[list[str], int] | None:
    """The lines to print and the exit code, or None for what is a mistake of ours."""
    if isinstance(error, Failure):
        return [str(error)], error.code
    if isinstance(error, BadSettings):
        return error.problems, EXIT_USE
    return _explain_refusal(error) or _explain_database(error)


def _explain_refusal(error: Exception) -> tuple[list[str], int] | None:
    """Imported only now: the supervisor of `up` has to stay small."""
    from webapp.datasets.declaration import BadCatalog
    from webapp.domain.access import LastAdmin
    from webapp.domain.errors import Invalid
    from webapp.storage import StorageUnusable
    from webapp.store.schema import OutdatedSchema

    if isinstance(error, BadCatalog):
        return [f"{problem.file}:{problem.line}: {problem.message}" for problem in error.problems], EXIT_USE
    if isinstance(error, OutdatedSchema):
        return [str(error)], EXIT_USE
    if isinstance(error, StorageUnusable):
        return [f"Finished files: {error}. To mend it: {error.mend}."], EXIT_PROBLEM
    if isinstance(error, LastAdmin):
        return [str(error)], EXIT_USE
    if isinstance(error, Invalid):
        return [field.message for field in error.errors], EXIT_USE
    return None


def _explain_database(error: Exception) -> tuple[list[str], int] | None:
    from sqlalchemy.exc import OperationalError

    from webapp.store.database import DATABASE_ERRORS

    if not isinstance(error, (*DATABASE_ERRORS, OperationalError, OSError, TimeoutError)):
        return None
    reason = str(error.orig if isinstance(error, OperationalError) else error) or type(error).__name__
    if isinstance(error, OSError) and error.filename:
        return [f"{error.filename}: {error.strerror}."], EXIT_PROBLEM
    return [f"The database cannot be used: {reason.splitlines()[0]}."], EXIT_PROBLEM
