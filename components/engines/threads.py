"""OpenMP's helper threads, which torch leaves waiting in every thread that it worked in."""

from __future__ import annotations

import ctypes
import sys


def release_helpers() -> None:
    """Give back the helper threads that torch has in the calling thread; its next kernel makes new
    ones, in a fraction of a millisecond.

    Where several threads keep helpers, libgomp counts more of all of them than there are cores, and
    then lets them sleep between kernels: a model that works in a thread of its own (vLLM) loses
    a third of its speed. An OpenMP before 5.0 can't, and keeps them.
    """
    if "torch" not in sys.modules:
        return
    pause = getattr(ctypes.CDLL(None), "omp_pause_resource_all", None)
    if pause:
        pause(1)  # omp_pause_soft
