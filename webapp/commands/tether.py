"""Ties a child process to its parent: when the parent dies, even by SIGKILL, the kernel kills the child."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def tether() -> Callable[[], None] | None:
    """What to run in the child between fork and exec. None where the kernel cannot do it: it is Linux's alone.

    The parent has to be single-threaded: the kernel watches the thread that forked.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return tie
