"""JSON-LD in pages: what they describe for search engines (schema.org)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lxml.html import HtmlElement

TYPE = "application/ld+json"
_WRAPPING = re.compile(r"<!\[CDATA\[|\]\]>|<!--|-->")  # which may stand in comments of JavaScript


def scripts(tree: HtmlElement) -> list[HtmlElement]:
    """The scripts of JSON-LD in a page: parameters and letter case of the type don't count."""
    return [
        script
        for script in tree.iter("script")
        if script.get("type", "").partition(";")[0].strip().lower() == TYPE
    ]


def value(script: HtmlElement) -> Any:
    """What a script of JSON-LD says, also with raw line breaks in its texts; None if no JSON."""
    try:
        return json.loads(_WRAPPING.sub("", script.text or "").strip("/* \t\r\n"), strict=False)
    except (ValueError, RecursionError):  # whatever the page's author wrote
        return None
