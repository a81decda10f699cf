"""Every limit that more than one part must agree on, in seconds unless the name says otherwise."""

HEARTBEAT_EVERY = 1.0
HEARTBEAT_LOST_AFTER = 12.0
WORKER_BEATS_EVERY = 2.0
"""A worker process, whether it has work or not."""
WORKERS_SHOWN_FOR = 3600.0
"""After their end, or their last sign of life."""
SWEEP_EVERY = 5
PENDING_STUCK_AFTER = 5.0
QUEUED_STUCK_AFTER = 10.0
EXECUTION_GRACE = 15.0
"""How long past its execution limit an export may stay PROCESSING before the sweep ends it."""

RETRY_WAITS = (10.0, 60.0)
RETRY_JITTER = 0.2
ATTEMPTS_SHOWN = 100
IDEMPOTENCY_KEY_LIFETIME = 24 * 3600.0

SMALL_ROWS = 100_000
"""Up to so many rows an export is small: it has a slot kept for it, and goes before large ones in the others."""
LARGE_AGES_AFTER = 300.0
"""Then a large export that waits no longer lets small ones of people with as few running go before it."""
STARTS_FORETOLD = 200
"""With more exports than this before it, nobody can say when one will start."""

PROGRESS_PUBLISHED_EVERY = 0.25

ATTEMPT_MEMORY_MIB = 512
DISK_RESERVE = 64 * 1024 * 1024
"""Bytes that exports leave free of the disk that they are written to, or of a small disk a part."""
DISK_RESERVE_PART = 20

REQUEST_BODY_BYTES = 256 * 1024
PARAMETER_TEXT_LENGTH = 10_000
LIST_ITEMS = 1_000
COLUMNS_MOST = 1_000
"""That an order may choose."""
COLUMN_NAME_LENGTH = 1_000
NAME_LENGTH = 120
NOTE_LENGTH = 2_000
"""Characters, of what people call their exports and note about them."""
QUERY_TEXT_LENGTH = 200
"""Characters of a text in an address that a list is filtered or searched by."""
PAGE_SIZE = 25
MAX_PAGE_SIZE = 200
LONG_POLL_SECONDS = 30.0

SAVED_ORDERS_MOST = 200
SAVED_ORDER_RESTORABLE = 24 * 3600.0
SCHEDULE_RETRY_SECONDS = 60
SCHEDULE_FAILURES_MOST = 5
"""Runs in a row that fail; then a schedule stops."""

PREVIEW_ROWS = 20
PREVIEW_SECONDS = 5.0
COUNT_SECONDS = 2.0
CHOICES_MOST = 10_000
"""Values that a `choices_sql` may give."""
CHOICES_SECONDS = 5.0
CHOICES_KEPT = 60.0
CHOICES_AT_A_GLANCE = 50
"""Up to so many choices are all shown; more are searched."""
CHOICES_FOUND = 20
PAST_RUNS = 20
SHEET_ROWS = 1_048_575
"""Rows of one XLSX sheet under its heading."""


def retry_after(age: float) -> int:
    """How many seconds a polling client should wait: 1, doubling with the export's age up to 30."""
    wait = 1
    while wait < 30 and wait * 2 <= age:
        wait *= 2
    return min(wait, 30)
