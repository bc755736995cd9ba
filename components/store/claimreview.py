"""The claims that a page says it checks, in markup for search engines (ClaimReview, schema.org)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lxml.html import HtmlElement


def checked_claims(tree: HtmlElement) -> list[str]:
    """The texts of `claimReviewed` in a page's JSON-LD and microdata, each once. The page itself
    stays as it is."""
    found: list[str] = []
    for script in tree.xpath('//script[@type="application/ld+json"]'):
        try:
            found += _in_json(json.loads(script.text or ""))
        except (ValueError, RecursionError):  # whatever the page's author wrote
            continue
    for item in tree.xpath('//*[@itemprop="claimReviewed"]'):
        found.append(item.get("content") or item.text_content())
    texts = [" ".join(text.split()) for text in found]
    return list(dict.fromkeys(filter(None, texts)))


def _in_json(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(claim := value.get("claimReviewed"), str):
            yield claim
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _in_json(part)
