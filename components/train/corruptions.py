"""Negative examples of claim, question and answer: gold triples of which one part is another's."""

from __future__ import annotations

import dataclasses
import random
import warnings
from pathlib import Path

from components.cache import Artifact, Cache, key_of
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import Record, decode, encode
from components.step import identity

FILE = "corruptions.json"
PARTS = ("claim", "question", "answer")
TRIES = 10  # few others make no negative, so most draws are over at once

Triple = tuple[str, str, str]  # the texts of PARTS


class Corruption(Record):
    """A gold triple, by its position, with one part of another one; in a pass (from 0)."""

    of: int
    step: int
    part: str
    triple: Triple


@dataclasses.dataclass(kw_only=True)
class Corruptions:
    """`ratio` negatives for every gold triple, drawn anew for each pass: in turn, each of `parts`
    is replaced by that of another triple.

    The baseline of AVeriTeC 2024 has three rounds of all three parts, a ratio of 9 (Schlichtkrull
    et al. 2023, and the code of the shared task). parts: fewer of them leave out a kind.
    """

    ratio: int = 9
    parts: list[str] = dataclasses.field(default_factory=lambda: list(PARTS))

    def __post_init__(self) -> None:
        if self.ratio < 1:
            raise ClaimflowError(f"corruptions.ratio is 1 or more, not {self.ratio}.")
        if not self.parts or not set(self.parts) <= set(PARTS):
            raise ClaimflowError(f"corruptions.parts are of {', '.join(PARTS)}, not {self.parts}.")

    def sample(self, triples: list[Triple], passes: int, seed: int) -> list[Corruption]:
        """Negatives for each triple and pass: none is one of `triples`, whatever it was made from,
        and none comes twice for a triple in a pass.

        A triple has fewer than `ratio` where all others have the same parts.
        """
        known = set(triples)
        others = [list(dict.fromkeys(parts)) for parts in zip(*triples, strict=True)]
        found = []
        for of, triple in enumerate(triples):
            for step in range(passes):
                rng = random.Random(key_of(seed, of, triple, step))
                made: set[Triple] = set()
                for n in range(self.ratio):
                    part = self.parts[n % len(self.parts)]
                    at = PARTS.index(part)
                    for other in rng.sample(others[at], min(len(others[at]), TRIES)):
                        changed = list(triple)
                        changed[at] = other
                        claim, question, answer = changed
                        new = (claim, question, answer)
                        if new not in known and new not in made:
                            made.add(new)
                            found.append(Corruption(of=of, step=step, part=part, triple=new))
                            break
        return found

    def kept(
        self, triples: list[Triple], passes: int, seed: int, cache: Cache
    ) -> tuple[list[Corruption], Artifact]:
        """`sample`, once: the negatives as data of their own, with their digest. Warns where they
        are fewer than the ratio asks for."""

        def build(folder: Path) -> None:
            found = self.sample(triples, passes, seed)
            reached = round(len(found) / max(1, len(triples) * passes), 1)
            if reached < self.ratio:
                warnings.warn(
                    f"corruptions.ratio={self.ratio}: {reached} reached, as {len(triples)} gold "
                    "questions and answers leave no more.",
                    stacklevel=2,
                )
            write_whole(folder / FILE, encode(found))

        key = key_of("corruptions", identity(self), triples, passes, seed)
        artifact = cache.artifact(key, build)
        return decode((Path(artifact.path) / FILE).read_bytes(), list[Corruption]), artifact
