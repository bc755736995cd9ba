"""When a server wants to be asked again."""

from __future__ import annotations

import datetime
import email.utils
import re


def retry_after(said: str | None) -> float | None:
    """Seconds from now by a Retry-After header (RFC 9110, section 10.2.3): a number of them, or a
    date. None: there is none, or it says neither."""
    text = (said or "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        until = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if until.tzinfo is None:  # "-0000": a time of no place, which HTTP has in UTC
        until = until.replace(tzinfo=datetime.UTC)
    return max(0.0, (until - datetime.datetime.now(datetime.UTC)).total_seconds())
