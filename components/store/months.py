"""Names of months, as dates in pages and addresses have them."""

from __future__ import annotations

import datetime

_ENGLISH = (
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "jan feb mar apr may jun jul aug sept oct nov dec",
)
# German, French, Spanish, Italian, Portuguese, Dutch, Indonesian and Polish (in the genitive, as
# dates have it). Short forms that are words of English (ago, out, set) are left out.
_OTHERS = (
    "januar februar märz april mai juni juli august september oktober november dezember",
    "jänner feb mär apr mai jun jul aug sep okt nov dez",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "janv févr mars avr mai juin juil août sept oct nov déc",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "ene feb mar abr may jun jul agosto setiembre oct nov dic",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "gen feb mar apr mag giu lug agosto sett ott nov dic",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "jan fev mar abr mai jun jul agosto sep oct nov dez",
    "januari februari maart april mei juni juli augustus september oktober november december",
    "januari februari maret april mei juni juli agustus september oktober november desember",
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada"
    " grudnia",
)


def _numbers(lists: tuple[str, ...]) -> dict[str, int]:
    return {name: n for names in lists for n, name in enumerate(names.split(), 1)}


ENGLISH = _numbers(_ENGLISH)
MONTHS = _numbers(_ENGLISH + _OTHERS)


def pattern(names: dict[str, int]) -> str:
    """A regular expression of any of the names, for one without regard to case."""
    return f"(?:{'|'.join(sorted(names, key=len, reverse=True))})"


def day(year: str, month: str, number: str) -> datetime.date | None:
    """A day by the year, the number or name of the month, and the number of the day; None where
    there is no such day."""
    name = month.lower()
    try:
        return datetime.date(int(year), MONTHS.get(name) or int(name), int(number))
    except ValueError:  # 31 June
        return None
