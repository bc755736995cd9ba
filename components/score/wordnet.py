"""Synonyms from WordNet's own files (format: wndb(5WN)), equal to those of NLTK's reader.

NLTK's takes two seconds to start and seeks in files that threads share; this one takes a tenth of
a second and only reads.
"""

from __future__ import annotations

import functools
from pathlib import Path

from components.assets import nltk_ready

# Endings that WordNet's morphology takes off or replaces (morphy(7WN)).
_ENDINGS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}


@functools.cache
def synonyms(word: str) -> frozenset[str]:
    """One-word lemmas of every synset of `word` (lower case) or of its base forms."""
    return frozenset(name for part in _ENDINGS for name in _Part.of(part).lemmas(word))


class _Part:
    """The files of one part of speech: index (lemma to offsets), data (synsets), exceptions."""

    def __init__(self, part: str, folder: Path) -> None:
        self.data = (folder / f"data.{part}").read_bytes()
        lines = (folder / f"index.{part}").read_text(encoding="utf-8").split("\n")
        self.index = {line[: line.find(" ")]: line for line in lines if line[:1].strip()}
        exceptions = (folder / f"{part}.exc").read_text(encoding="utf-8").split("\n")
        self.exceptions = {base[0]: base[1:] for base in map(str.split, exceptions) if base}
        self.synsets: dict[str, list[str]] = {}
        self.endings: dict[str, list[list[str]]] = {}  # by the last letter
        for ending in _ENDINGS[part].split():
            old, new = ending.split(":")
            self.endings.setdefault(old[-1], []).append([old, new])

    @staticmethod
    @functools.cache
    def of(part: str) -> _Part:
        """The files below NLTK's data path, read once."""
        nltk_ready()
        import nltk

        return _Part(part, Path(str(nltk.data.find(f"corpora/wordnet/data.{part}"))).parent)

    def lemmas(self, word: str) -> set[str]:
        """One-word lemmas of the synsets of `word` and of its base forms."""
        forms = self.exceptions.get(word)
        if forms is None:
            endings = self.endings.get(word[-1:], [])
            forms = [word.removesuffix(a) + b for a, b in endings if word.endswith(a)]
        found: set[str] = set()
        for form in (word, *forms):
            if not (line := self.index.get(form)):
                continue
            columns = line.split()  # lemma, pos, number of synsets, …, offsets
            for offset in columns[-int(columns[2]) :]:
                found.update(self.synsets.get(offset) or self.synset(offset))
        return found

    def synset(self, offset: str) -> list[str]:
        """One-word lemmas of the synset at a byte offset, without syntactic markers."""
        start = int(offset)
        line = self.data[start : self.data.index(b"|", start)].decode()
        columns = line.split()  # offset, file, pos, number of lemmas, (lemma, id) …
        names = columns[4 : 4 + 2 * int(columns[3], 16) : 2]
        self.synsets[offset] = [name.partition("(")[0] for name in names if "_" not in name]
        return self.synsets[offset]
