"""The claims that a page says it checks, in markup for search engines (ClaimReview, schema.org)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.store import jsonld

if TYPE_CHECKING:
    from lxml.html import HtmlElement


def checked_claims(tree: HtmlElement) -> list[str]:
    """The texts of `claimReviewed` in a page's JSON-LD, microdata and RDFa, each once. The page
    itself stays as it is."""
    found = [claim for s in jsonld.scripts(tree) for claim in _in_json(jsonld.value(s))]
    for item in tree.xpath("//*[@itemprop or @property]"):
        names = f"{item.get('itemprop', '')} {item.get('property', '')}".split()
        # RDFa may write schema:claimReviewed, or https://schema.org/claimReviewed.
        if any(re.split("[:/]", name)[-1] == "claimReviewed" for name in names):
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
