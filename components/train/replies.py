"""Language models that learn to write: questions on a claim, and answers to them."""

from __future__ import annotations

import dataclasses
import functools
import shutil
from pathlib import Path
from typing import Any, ClassVar

from components import assets, weights
from components.engines.memory import check_weights
from components.errors import ClaimflowError
from components.files import write_whole
from components.reason.prompt import filled, prompt_file
from components.records import Case, Claim, Document, Record, encode
from components.score.base import Measure
from components.step import Context, TrainedStep, identity
from components.text import well_formed
from components.train.card import CARD, card
from components.train.packing import attend_within_examples, joined
from components.train.trainer import (
    Lora,
    Row,
    Training,
    float32_head,
    no_masks_by_cudnn,
    placed,
    quiet,
    save,
    sizes,
    tune,
)

ABOUT, PROMPT, CURVE = "replies.json", "prompt.txt", "curve.json"


class Written(Record):
    """What stands beside the weights.

    base, base_digest: the model that was tuned. trained, total: numbers of parameters. held_out:
    measures on the held-out part.
    """

    task: str
    base: str
    base_digest: str
    trained: int = 0
    total: int = 0
    held_out: dict[str, Measure] = {}


class Example(Record):
    """What a model is asked and what it should say; chat: by the model's template for chats."""

    claim: str  # its id
    prompt: str
    reply: str
    chat: bool


@dataclasses.dataclass(kw_only=True)
class Replies(TrainedStep):
    """A causal language model that learns the replies of annotators, with the loss on the reply
    alone, its end included.

    It is no step of a pipeline: an engine uses what it writes (`llm.adapter`), under the prompt
    that it was trained with. Examples longer than trainer.max_length are left out. On the claims
    held out, the loss chooses the state; it is measured beside that of the base model.

    model: any causal language model. lora: None trains all weights. prompt: see the subclasses.
    """

    task: ClassVar[str] = ""
    does: ClassVar[str] = ""
    head: ClassVar[None] = None  # it is a language model

    model: Path
    prompt: Path
    trainer: Training
    lora: Lora | None = None
    rate: float = 5e-4
    epochs: int = 3

    def __post_init__(self) -> None:
        self.model = assets.model(self.model)
        check_weights(self.model)
        self.prompt = prompt_file(self.prompt)

    def examples(self, train: list[Claim], ctx: Context) -> list[Example]:
        """What is to be learned of the training claims."""
        raise NotImplementedError(type(self).__name__)

    def trained(self, folder: Path) -> int:
        return weights.about(folder, ABOUT, Written, self.task).trained

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        from transformers import set_seed

        seed, settings = ctx.seed_for(self.task), self.trainer
        set_seed(seed)
        writer = Writer(self.model, settings, half=settings.half and self.lora is not None)
        every = self.examples(train, ctx)
        fit = [(example.claim, row) for example in every if (row := writer.row(example))]
        names = list(dict.fromkeys(claim for claim, _ in fit))
        inside, outside = settings.split(["claim"] * len(names), seed)
        kept, held = (
            [row for claim, row in fit if claim in part]
            for part in ({names[i] for i in inside}, {names[i] for i in outside})
        )
        if not kept or not held:
            raise ClaimflowError(
                f"{len(every)} examples of {len(train)} training claims give {len(kept)} to learn "
                f"from and {len(held)} held out: give more claims, or a higher trainer.max_length "
                "(longer ones are left out)."
            )
        before = writer.losses(held)
        model = self.lora.wrap(writer.model, "CAUSAL_LM") if self.lora else writer.model
        key = ctx.fit_key(self)
        checkpoints = ctx.cache.unfinished(key)
        curve = tune(
            model,
            settings.batches([kept] * self.epochs, seed, packed=True),
            settings.batches([held], seed, packed=True),
            collate=functools.partial(
                writer.batch,
                padded=not settings.packing,
                least=settings.tokens if settings.packing and settings.compile else 0,
            ),
            log_probabilities=log_probabilities,
            weights=None,
            settings=settings,
            rate=self.rate,
            epochs=self.epochs,
            seed=seed,
            folder=checkpoints,
            best="loss",
        )
        save(model, writer.tokenizer, self.model, folder)
        write_whole(folder / CURVE, encode(curve))
        shutil.copyfile(self.prompt, folder / PROMPT)
        learned, total = sizes(model)
        found = Written(
            task=self.task,
            base=self.model.name,
            base_digest=identity(self.model),
            trained=learned,
            total=total,
            held_out={
                "loss a token": mean(writer.losses(held)),
                "loss a token of the base model": mean(before),
            },
        )
        write_whole(folder / ABOUT, encode(found))
        data: dict[str, object] = {
            "claims": ctx.train_digest,
            "trained on": f"{len(kept)} examples of {len(inside)} claims",
            "held out": f"{len(held)} examples of {len(outside)} claims, seed {seed}",
            "left out": f"{len(every) - len(fit)} examples, too long",
        }
        write_whole(folder / CARD, card(self.task, self.does, self, found, data).encode())
        shutil.rmtree(checkpoints, ignore_errors=True)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        raise ClaimflowError(
            f"task={self.task} trains a language model: use it as `llm.adapter=FOLDER` of a step "
            "that asks one."
        )


@dataclasses.dataclass(kw_only=True)
class QuestionReplies(Replies):
    """The gold questions of a claim, numbered, `n` at most.

    prompt: with {claim}, and what else `LlmQuestions` fills in; {examples} stays empty, so that
    its use is `questioner.examples=0`.
    """

    task: ClassVar = "question"
    does: ClassVar = "Asks what must be known to judge a claim."

    prompt: Path = Path("questions.txt")
    n: int = 3

    def examples(self, train: list[Claim], ctx: Context) -> list[Example]:
        found = []
        for claim in train:
            asked = [" ".join(question.question.split()) for question in claim.questions]
            if asked:
                text = filled(
                    self.prompt,
                    claim=claim.text.strip(),
                    examples="",
                    n=str(self.n),
                    speaker=claim.speaker or "unknown",
                    date=str(claim.date or "unknown"),
                )
                first, *more = list(dict.fromkeys(asked))[: self.n]
                lines = [first, *(f"{i}. {question}" for i, question in enumerate(more, 2))]
                found.append(
                    Example(claim=claim.id, prompt=text, reply=" " + "\n".join(lines), chat=False)
                )
        return found


@dataclasses.dataclass(kw_only=True)
class AnswerReplies(Replies):
    """The gold answer to each gold question, from the page that it is from.

    prompt: with {claim}, {question} and {sources}, asked as a chat, as `LlmAnswers` does. Of the
    page the first `characters` from the sentence that is most like the answer are shown. Answers
    whose page the training claims' documents don't have are left out.
    """

    learns: ClassVar = ("claim", "documents")
    task: ClassVar = "answer"
    does: ClassVar = "Answers a question from the text of a page."

    prompt: Path = Path("answer.txt")
    characters: int = 1000

    def examples(self, train: list[Claim], ctx: Context) -> list[Example]:
        found = []
        for case in ctx.cases(self):
            pages = {document.url: document for document in case.documents if document.url}
            for question in case.claim.questions:
                for answer in question.answers:
                    page = pages.get(answer.source_url or "")
                    said = (answer.answer, answer.boolean_explanation)
                    reply = " ".join(" ".join(filter(None, said)).split())
                    if page is None or not page.sentences or not reply:
                        continue
                    text = filled(
                        self.prompt,
                        claim=case.claim.text.strip(),
                        question=question.question,
                        sources=shown(page, reply)[: self.characters],
                    )
                    found.append(Example(claim=case.claim.id, prompt=text, reply=reply, chat=True))
        return found


def shown(page: Document, answer: str) -> str:
    """A page from the sentence before the one that shares most words with the answer."""
    words = set(answer.casefold().split())
    shares = [len(words & set(text.casefold().split())) for text in page.sentences]
    return " ".join(page.sentences[max(0, shares.index(max(shares)) - 1) :])


class Writer:
    """A causal language model in memory, and how examples become its input."""

    def __init__(self, base: Path, trainer: Training, half: bool) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        quiet()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(base, local_files_only=True)
        dtype = torch.bfloat16 if half else torch.float32
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            base, dtype=dtype, local_files_only=True
        )
        float32_head(self.model.lm_head)
        attend_within_examples(self.model)
        placed(self.model)
        self.longest = min(trainer.max_length, self.model.config.max_position_embeddings)

    def row(self, example: Example) -> Row | None:
        """Prompt and reply without its last token, and the tokens of the reply; None if it is too
        long."""
        prompt = well_formed(example.prompt)
        if example.chat:
            prompt = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
            )
        asked = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        said = self.tokenizer(well_formed(example.reply), add_special_tokens=False)["input_ids"]
        said = [*said, self.tokenizer.eos_token_id]
        ids = [*asked, *said[:-1]]
        return {"input_ids": ids, "labels": said} if len(ids) <= self.longest else None

    def batch(self, rows: list[Row], padded: bool = False, least: int = 0) -> dict[str, Any]:
        """Rows one behind the other; logits where a token of a reply comes next."""
        ids = [row["input_ids"] for row in rows]
        keep = [len(row["labels"]) for row in rows]
        pad = self.tokenizer.pad_token_id or 0
        return joined(ids, pad, self.longest, padded, least, keep)

    def losses(self, rows: list[Row]) -> list[float]:
        """The mean loss of the tokens of each reply."""
        import torch
        from accelerate.utils import send_to_device

        no_masks_by_cudnn()
        self.model.eval()
        found = []
        for row in rows:
            with torch.inference_mode():
                out = self.model(**send_to_device(self.batch([row]), self.model.device))
                scores = log_probabilities(out)
                labels = torch.tensor(row["labels"], device=scores.device)
                found.append(float(-scores.gather(1, labels[:, None]).mean()))
        return found


def log_probabilities(out: Any) -> Any:
    """(tokens, vocabulary), float32, of what the model puts out for a row."""
    return out.logits[0].float().log_softmax(-1)


def mean(values: list[float]) -> Measure:
    """The mean with its 95 % interval, examples resampled."""
    from components.score import bootstrap

    return bootstrap.measure(bootstrap.mean(values), bootstrap.resamples(len(values), 1000, 13))
