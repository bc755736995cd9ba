"""Prompts that fit into a model's context: how evidence is cut when it is too long."""

from __future__ import annotations

import bisect
from collections.abc import Callable

from components.engines.base import Engine, Request
from components.step import Context

CUT = "evidence cut to fit the model's context"


def fitted(
    engine: Engine, make: Callable[[int | None], Request], longest: int, ctx: Context
) -> tuple[Request, bool]:
    """(the request, whether it was cut).

    make(size): the request with each text of evidence cut to `size` characters (None: whole). All
    are cut to the same, largest size that fits, so every one keeps its beginning and none is left
    out. longest: characters of the longest text. Where even empty texts don't fit the request
    comes back whole, and the engine says by how much it is too long.
    """
    whole = make(None)
    if engine.fits(whole, ctx):
        return whole, False
    size = bisect.bisect_left(
        range(1, longest + 1), True, key=lambda n: not engine.fits(make(n), ctx)
    )
    return (make(size), True) if size else (whole, False)
