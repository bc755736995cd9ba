"""Numbers among the parameters of a part: finite, and in their range."""

from __future__ import annotations

import math

from components.errors import ClaimflowError


def check_number(part: object, name: str, least: float = -math.inf, most: float = math.inf) -> None:
    """Raise ClaimflowError unless the parameter `name` of `part`, or each number of a list, is
    finite and lies between `least` and `most`, both of them included, or is None."""
    value = getattr(part, name)
    numbers = value if isinstance(value, list) else [value]
    if all(n is None or (math.isfinite(n) and least <= n <= most) for n in numbers):
        return
    due = f"{least:g} to {most:g}" if math.isfinite(most) else f"{least:g} or more"
    raise ClaimflowError(
        f"{name}={value} of {type(part).__name__} is wrong: give "
        f"{due if math.isfinite(least) else 'a finite number'}"
        f"{' for each' if numbers is value else ''}."
    )
