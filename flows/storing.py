"""The stages of flows.store: gold pages, queries, search, pages, stores."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import functools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from omegaconf import OmegaConf
from prefect import task
from prefect.cache_policies import NO_CACHE
from tqdm import tqdm

from components.cache import key_of, open_cache
from components.datasets.base import Dataset, normalised
from components.errors import ClaimflowError, MissingFileError, listed
from components.files import ROOT, file_digest
from components.pipeline import CaseRef, load
from components.pipeline import store as case_ref
from components.records import (
    Case,
    Claim,
    Document,
    Record,
    decode,
    encode,
    read_lines,
    write_lines,
)
from components.step import Context, code_version, identity
from components.store.build import (
    Built,
    Found,
    Read,
    Searched,
    assemble,
    document,
    read_pages,
    search,
    write_store,
)
from components.store.providers.base import Provider, ProviderError
from components.store.providers.local import Local
from components.store.queries import GOLD_PAGE, check_gold, gold_kinds
from flows.build import build, build_steps, check_settings, step_configs
from flows.log import number
from flows.record import StageReport
from flows.stages import Scope, context, ok, plain, run_stage

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.log import Log

T = TypeVar("T")


class Work(Record):
    """One claim of a shard of stores: digests of the claim, of what was found for it, and of the
    `Text` of each page by its URL (None: the provider has it). lacking: how many queries got no
    reply for the store that is there (None: there is none)."""

    id: str
    key: str
    claim: str
    searched: str
    texts: str | None = None
    lacking: int | None = None


class Text(Record):
    """What came of a URL: the digest of its `Read`, and where redirects led from it."""

    read: str
    final_url: str


def check(config: DictConfig) -> None:
    """Raise what is missing or misspelt before any work is done."""
    check_settings(config)
    dataset, queries, provider = (part(config, key) for key in ("dataset", "queries", "provider"))
    if not config.get("fetcher") and not provider.has_text:
        raise ClaimflowError(
            "This provider gives addresses without text: say how pages are fetched, fetcher=web."
        )
    provider.check()
    demo = (ROOT / "data" / "demo").resolve()
    searched = Path(provider.documents) if isinstance(provider, Local) else None
    invented = searched and searched.resolve().is_relative_to(demo)
    if invented and dataset.folder.resolve() != demo:
        raise ClaimflowError(
            "The demo's invented pages would fill these stores: choose who searches the web "
            "(provider=brave fetcher=web), or name documents with provider.documents=FOLDER."
        )
    build_steps(config)
    evaluated = config.split != dataset.train_split
    check_gold(queries.kinds, dataset.claims(), evaluated, config.allow_gold)


def settings(config: DictConfig, key: str) -> Any:
    """A group of the config, resolved."""
    return OmegaConf.to_container(config[key], resolve=True)


def part(config: DictConfig, key: str) -> Any:
    """What a group of the config describes."""
    return build(settings(config, key))


def run(config: DictConfig, log: Log, stopped: list[ClaimflowError]) -> list[Built]:
    """All stages; what is known of each store. A provider that stops ends the search, and what was
    found until then is built."""
    with log.stage("data"):
        dataset = part(config, "dataset")
        cache = open_cache(str(config.cache))
        claims = dataset.claims()
        try:
            train, _ = dataset.train(claims)
        except MissingFileError as error:
            raise ClaimflowError(
                f"{error} Queries show or use training claims; dataset.train_split=null goes "
                "without: then queries.examples=0 with a model, and no similar_entities."
            ) from error
        scope = Scope(cache=str(config.cache), train=cache.put(encode(train)), seed=config.seed)
        refs = [case_ref(Case(claim=claim), ("claim",), cache) for claim in claims]
    log.record.counts["claims"] = len(claims)
    for bad in dataset.bad:
        log.note(f"skipped {bad}")
    if undated := sum(claim.date is None for claim in claims):
        log.note(f"{undated} claims have no date: nothing restricts their search.")
    if gold := gold_kinds(config.queries.kinds):
        log.note(
            f"These stores hold what gold questions, answers or sources found ({', '.join(gold)}): "
            "for training. What a system reaches on them says nothing of how well it searches."
        )
    fetching = part(config, "fetcher") if config.get("fetcher") else contextlib.nullcontext()
    with fetching as fetcher:
        stores = Stores(config, scope, fetcher, log)
        stores.check(dataset, claims)
        if "similar_gold_paragraph" in config.queries.kinds:
            refs = stores.with_gold_pages(claims, refs)
        with log.stage("queries"):
            node = settings(config, "queries")
            refs, line = run_stage("queries", node, refs, scope, config.runner.shard)
        log.line(line)
        todo = stores.unfinished(ok(refs))
        works = stores.search(todo, stopped)
        if fetcher:
            works = stores.read(works)
    stores.write(works)
    stores.count(ok(refs))
    stores.tell_others()
    built = [stores.built[ref.id] for ref in ok(refs) if ref.id in stores.built]
    return built + [Built(id=ref.id, key="", error=ref.error) for ref in refs if ref.error]


class Stores:
    """The stores of one split in a folder, and what is known of each."""

    def __init__(self, config: DictConfig, scope: Scope, fetcher: Any, log: Log) -> None:
        self.config, self.scope, self.fetcher, self.log = config, scope, fetcher, log
        self.ctx = context(scope)
        self.cache = self.ctx.cache
        self.provider = part(config, "provider")
        self.gold = GOLD_PAGE in config.queries.kinds
        self.folder = Path(config.to) / f"knowledge_store_{config.split}"
        self.list = Path(config.to) / f"built_{config.split}.jsonl"
        self.built: dict[str, Built] = {}
        if self.list.is_file():  # what can't be read is made again
            for _, made in read_lines(self.list, Built, "skip"):
                self.built[made.id] = made
        self.before = dict(self.built)
        self.dataset, self.texts = "", dict[str, str]()

    def check(self, dataset: Dataset, claims: list[Claim]) -> None:
        """Raise ClaimflowError when the folder holds stores of other claims than those of
        `dataset`, of which `claims` are asked for."""
        self.dataset, self.texts = dataset.name, {claim.id: claim.text for claim in claims}
        known = [made for made in self.built.values() if made.claim]
        if not known:
            return
        whole = dataclasses.replace(dataset, limit=None, ids=None, on_error="skip", bad=[])
        texts = {claim.id: normalised(claim.text) for claim in whole.claims()}
        for made in known:
            if made.dataset != dataset.name:
                raise ClaimflowError(self._other(f"of the data set {made.dataset}"))
            if texts.get(made.id) != normalised(made.claim):
                what = f"of other claims (claim {made.id}: {made.claim[:60]!r})"
                raise ClaimflowError(self._other(what))

    def _other(self, what: str) -> str:
        return (
            f"{self.folder} holds stores {what}: name another folder with to=FOLDER, or remove "
            f"that one and {self.list}."
        )

    def with_gold_pages(self, claims: list[Claim], refs: list[CaseRef]) -> list[CaseRef]:
        """The cases with the text of their gold pages as documents."""
        found = {c.id: [Found(url=url, kind=GOLD_PAGE) for url in c.relevant] for c in claims}
        with self._stage("gold", "pages") as line:
            texts = self._read([page for pages in found.values() for page in pages], line)
            with_documents = []
            for ref in refs:
                read = [text_of(page, texts, self.provider, self.ctx) for page in found[ref.id]]
                documents = [text for text in read if isinstance(text, Document)]
                fields = {**ref.fields, "documents": self.cache.put(encode(documents))}
                with_documents.append(msgspec.structs.replace(ref, fields=fields))
        return with_documents

    def unfinished(self, refs: list[CaseRef]) -> list[CaseRef]:
        """The cases whose store is not there as these settings make it."""
        return [ref for ref in refs if not self._finished(ref)]

    def _finished(self, ref: CaseRef) -> bool:
        made, path = self.built.get(ref.id), self._path(ref.id)
        again = self.fetcher is not None and self.fetcher.retry_failed
        return bool(
            made
            and not (made.error or made.problems or again)
            and made.key == self._key(ref)
            and path.is_file()
            and file_digest(path) == made.digest
        )

    @functools.cached_property
    def _made_by(self) -> str:
        steps = [identity(build(node)) for node in step_configs(self.config).values()]
        code = code_version("components.store.build")
        # What decides whether a page is fetched; a slow host is asked again by retry_failed.
        names = ("robots", "allow", "redirects", "size_limit")
        fetched = {name: getattr(self.fetcher, name) for name in names} if self.fetcher else None
        provider = [identity(self.provider), self.provider.versions(self.ctx)]
        return key_of(code, provider, steps, fetched, self.gold, self.scope.seed)

    @functools.cached_property
    def _settings(self) -> str:
        return key_of(self._made_by, identity(build(settings(self.config, "queries"))))

    def _lacking(self, ref: CaseRef) -> int | None:
        """How many queries got no reply for the store that is there; None where there is none."""
        if not self._path(ref.id).is_file():
            return None
        made = self.built.get(ref.id)
        return len(made.problems) if made and not made.error else 0

    def _key(self, ref: CaseRef) -> str:
        return key_of(self._made_by, ref.fields["claim"], ref.fields["queries"])

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"

    def search(self, refs: list[CaseRef], stopped: list[ClaimflowError]) -> list[Work]:
        """Ask the provider all queries of each claim. What stops it is put into `stopped`."""
        works: list[Work] = []

        @task(cache_policy=NO_CACHE, task_run_name="search shard {number}")
        def search_shard(number: int) -> None:
            for ref in shards[number]:
                case = load(ref, ("claim", "queries"), self.cache)
                asked = case.queries
                found = search(
                    case.claim, asked, self.provider, self.ctx, self.gold, self.config.parallel
                )
                name, claim = self.cache.put(encode(found)), ref.fields["claim"]
                works.append(
                    Work(
                        id=ref.id,
                        key=self._key(ref),
                        claim=claim,
                        searched=name,
                        lacking=self._lacking(ref),
                    )
                )
                line.cases += len(asked)
                line.failed += len(found.problems)
                bar.update()

        shards = self._shards(refs)
        with self._stage("search", "queries") as line, _bar("search", len(refs), "claim") as bar:
            for number in range(len(shards)):
                try:
                    search_shard(number)
                except ProviderError as error:
                    stopped.append(error)
                    break
        return works

    def read(self, works: list[Work]) -> list[Work]:
        """Fetch and read the pages that were found, a shard of claims at a time."""
        done: list[Work] = []

        @task(cache_policy=NO_CACHE, task_run_name="pages of shard {number}")
        def pages_of_shard(number: int) -> None:
            searched = [
                decode(self.cache.get(work.searched) or b"", Searched) for work in shards[number]
            ]
            texts = self._read([page for each in searched for page in each.found], line)
            for work, each in zip(shards[number], searched, strict=True):
                mine = {page.url: texts[page.url] for page in each.found}
                done.append(msgspec.structs.replace(work, texts=self.cache.put(encode(mine))))

        shards = self._shards(works)
        with self._stage("pages", "pages") as line:
            for number in range(len(shards)):
                pages_of_shard(number)
        return done

    def _read(self, pages: list[Found], line: StageReport) -> dict[str, Text]:
        """The text of each page by its URL; counted in `line`. Without a fetcher none,
        as the provider has the text."""
        if not self.fetcher:
            line.cases += len(pages)
            return {}
        began = datetime.datetime.now(datetime.UTC)
        texts: dict[str, Text] = {}
        urls = list(dict.fromkeys(page.url for page in pages))
        for fetched, name in read_pages(urls, self.fetcher, self.cache, self.config.runner.workers):
            texts[fetched.url] = Text(read=name, final_url=fetched.final_url)
            line.cases += 1
            line.cached += fetched.fetched < began
            line.failed += fetched.error is not None
        return texts

    def write(self, works: list[Work]) -> None:
        """Sort out and write the stores, as tasks over shards of claims."""
        steps = list(step_configs(self.config).values())
        provider = settings(self.config, "provider")
        shards = self._shards(works)
        with (
            self._stage("stores", "stores") as line,
            _bar("stores", len(works), "store") as bar,
        ):
            futures = [
                write_shard.submit(
                    number,
                    self.cache.put(encode(part)),
                    steps,
                    provider,
                    str(self.folder),
                    plain(self.scope),
                )
                for number, part in enumerate(shards)
            ]
            for future in futures:
                made = decode(self.cache.get(future.result()) or b"", list[Built])
                self.built.update({store.id: self._known(store) for store in made})
                write_lines(self.list, self.built.values())
                line.cases += len(made)
                line.failed += sum(store.error is not None for store in made)
                bar.update(len(made))

    def _known(self, store: Built) -> Built:
        """What is known of a store that was made; where an earlier one stays, of that."""
        earlier = self.built.get(store.id)
        if store.error and earlier and self._path(store.id).is_file():
            return msgspec.structs.replace(earlier, error=store.error, problems=store.problems)
        store.settings, store.dataset = self._settings, self.dataset
        store.claim = self.texts[store.id]
        return store

    def tell_others(self) -> None:
        """Name the stores of other settings that were here: those replaced and those that stay."""
        other = [made.id for made in self.before.values() if made.settings != self._settings]
        gone = [id for id in other if self.built[id].settings == self._settings]
        stay = [id for id in other if id not in gone and self._path(id).is_file()]
        where = f"in {self.folder} of other settings, or of another version of the code"
        if gone:
            self.log.note(f"Stores {where}, which these replace: {listed(gone)}.")
        if stay:
            self.log.note(f"Stores {where}, which stay beside these: {listed(stay)}.")

    def count(self, refs: list[CaseRef]) -> None:
        """Put the pages of all stores into the run's counts, by what became of them."""
        counts: collections.Counter[str] = collections.Counter()
        for ref in refs:
            if ref.id in self.built:
                counts.update(self.built[ref.id].counts)
        first = {name: counts[name] for name in ("found", "kept")}
        self.log.record.counts |= first | dict(counts.most_common())

    def _shards(self, items: list[T]) -> list[list[T]]:
        size = self.config.runner.shard
        return [items[at : at + size] for at in range(0, len(items), size)]

    @contextlib.contextmanager
    def _stage(self, name: str, unit: str) -> Iterator[StageReport]:
        """Time a stage that counts `unit`, and print its line."""
        line = StageReport(name=name, cases=0, cached=0, failed=0, seconds=0)
        start = time.perf_counter()
        with self.log.stage(name):
            yield line
        line.seconds = round(time.perf_counter() - start, 3)
        self.log.line(line, unit)


@task(cache_policy=NO_CACHE, task_run_name="stores of shard {number}")
def write_shard(
    number: int,
    works: str,
    steps: list[dict[str, Any]],
    provider: dict[str, Any],
    folder: str,
    scope: dict[str, Any],
) -> str:
    """Write the stores of a shard; `works` and the result are digests of lists."""
    ctx = context(Scope(**scope))
    pipeline, source = [build(node) for node in steps], build(provider)
    made = []
    for work in decode(ctx.cache.get(works) or b"", list[Work]):
        claim = decode(ctx.cache.get(work.claim) or b"", Claim)
        searched = decode(ctx.cache.get(work.searched) or b"", Searched)
        texts = decode(ctx.cache.get(work.texts) or b"", dict[str, Text]) if work.texts else {}
        read = functools.partial(text_of, texts=texts, provider=source, ctx=ctx)
        documents, counts = assemble(claim, searched, read, pipeline, ctx)
        built = Built(id=work.id, key=work.key, counts=counts, problems=searched.problems)
        path = Path(folder) / f"{work.id}.json"
        if path.parent != Path(folder):
            built.error = "its id can't name a file"
        elif work.lacking is not None and _loses(searched, counts, work.lacking):
            failed = f"queries without a reply: {len(searched.problems)}"
            why = failed if documents else _nothing_left(searched)
            built.error = f"{why}; the one of an earlier run stays (remove {path} to do without)"
        elif documents:
            built.digest = write_store(path, claim, documents)
        else:
            path.unlink(missing_ok=True)  # of other settings
            built.error = _nothing_left(searched)
        made.append(built)
    return ctx.cache.put(encode(made))


def _loses(searched: Searched, counts: dict[str, int], lacking: int) -> bool:
    """Whether a store would lose pages, against the one that is there, to a service or sites that
    gave no reply. lacking: of how many queries that one has none."""
    unread = any(name.startswith("unread") for name in counts)
    nothing = not counts["kept"] and (searched.problems or unread)
    return bool(nothing) or len(searched.problems) > lacking


def _nothing_left(searched: Searched) -> str:
    """Why a store has no page."""
    if not searched.found:
        failed = searched.problems
        return f"no page was found{f', queries without a reply: {len(failed)}' if failed else ''}"
    return f"none of {number(len(searched.found), 'page')} found is left"


def text_of(
    page: Found, texts: dict[str, Text], provider: Provider, ctx: Context
) -> Document | str:
    """The text of a page, or why there is none: from `texts`, else as the provider has it."""
    if text := texts.get(page.url):
        read = decode(ctx.cache.get(text.read) or b"", Read)
        if read.page is None:
            return read.error or "no text"
        return document(page, read.page, text.final_url)
    known = provider.document(page.url, ctx) if provider.has_text else None
    if known is None:
        return "not among the given documents"
    return msgspec.structs.replace(known, id=page.url, query=page.query, kind=page.kind)


def _bar(what: str, total: int, unit: str) -> tqdm[Any]:
    return tqdm(total=total, desc=what, unit=unit, delay=2, leave=False, disable=None)
