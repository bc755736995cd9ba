"""Text generation by any server with OpenAI's HTTP interface: vllm serve, llama.cpp, Ollama …"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from components.engines import adapter as adapters
from components.engines.base import Engine, Message, Reply, Request
from components.errors import ClaimflowError
from components.retries import retry_after
from components.step import Context

if TYPE_CHECKING:
    import httpx

CHARACTERS = 3  # of a token, at least, in all but dense text: English has about 4
CONNECT = 10.0  # seconds in which a server that is there takes a connection
OPENAI = "https://api.openai.com/"
MOST_LIKELY = 20  # tokens that a server tells the log-probability of, at most


# Why a reply ended, beside the model's own end, in the words of several servers.
_FULL = ("length", "max_tokens", "max_length", "model_length")
_BROKEN_OFF = (
    "abort", "cancelled", "content_filter", "error", "function_call", "safety", "tool_calls",
)  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class OpenAiEngine(Engine):
    """A language model behind HTTP.

    url: the address up to and with `/v1`. model: its name there; the server knows what weights
    that means, so a server that changes them under one name needs another `url` or name.
    key_variable: the environment variable that holds the key, if the server asks for one.
    parallel: requests at once. timeout: seconds that one reply may take. context: tokens of prompt
    and reply that the server takes, by which steps cut evidence that is too long, at CHARACTERS of
    text a token; None: nothing is cut, and the server refuses what it can't take. adapter: a LoRA
    folder that the server has under the start of its digest: `vllm serve MODEL --enable-lora
    --lora-modules DIGEST=FOLDER`; a server without it is an error that says this line.

    A request that the server is too busy for (429), fails at (5xx), or answers late, in part or
    with what is no completion, is sent `attempts` times, `wait` seconds later and then four times
    as long each time, or when its Retry-After says, a minute at most. After the last it costs
    itself alone, as does one that the server refuses (400, 413, 422: too long, say).
    A server need not say how many tokens it read and wrote: such replies are `uncounted`.
    A server on this machine is asked straight, whatever proxy the environment names.
    A server that is away (nothing there within CONNECT seconds), wants a key, doesn't know the
    model, or has failed at more requests in a row than run at once (before any reply, at as many)
    stops the batch with a ClaimflowError once the replies on their way are in, and these are kept;
    flows then try again.
    """

    outside: ClassVar[bool] = True
    unkeyed: ClassVar[tuple[str, ...]] = (
        "key_variable", "parallel", "timeout", "attempts", "wait",
    )  # fmt: skip
    unasked: ClassVar[tuple[str, ...]] = ("context",)

    url: str
    model: str
    adapter: Path | None = None
    context: int | None = None
    key_variable: str = "OPENAI_API_KEY"
    parallel: int = 16
    timeout: float = 120.0
    attempts: int = 4
    wait: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.parallel < 1:
            raise ClaimflowError("llm.attempts and llm.parallel are 1 or more.")
        if self.adapter is not None:
            self.adapter = Path(self.adapter).absolute()
            adapters.read(self.adapter)

    def fits(self, request: Request, ctx: Context) -> bool:
        if self.context is None:
            return True
        prompt = request.prompt
        turns = [prompt] if isinstance(prompt, str) else [turn.content for turn in prompt]
        tokens = sum(len(turn) / CHARACTERS + 8 for turn in turns)  # 8: what marks a turn
        return tokens + request.max_tokens <= self.context

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

        failure: ClaimflowError | None = None
        in_row, answered = 0, False
        over = threading.Event()  # set when there is no use in trying again
        pool = ThreadPoolExecutor(self.parallel)
        try:
            with self._client() as client:
                numbers = {
                    pool.submit(self._asked, client, request, over): i
                    for i, request in enumerate(requests)
                }
                waiting = set(numbers)
                while waiting:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        try:
                            reply, in_row, answered = future.result(), 0, True
                        except _PassingError as error:
                            in_row += 1
                            most = self.parallel if answered else max(self.parallel - 1, 1)
                            if in_row > most or len(requests) == in_row:
                                failure = failure or error
                            reply = Reply(error=str(error))
                        except ClaimflowError as error:
                            failure = failure or error
                            continue
                        yield numbers[future], reply
                    if failure:  # what has not begun never will
                        over.set()
                        waiting = {future for future in waiting if not future.cancel()}
        finally:
            pool.shutdown(cancel_futures=True)
        if failure:
            raise failure

    def away(self) -> str | None:
        import httpx

        url = f"{self.url.rstrip('/')}/models"
        try:
            with self._client() as client:
                status = client.get(url, timeout=CONNECT).status_code
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol,
                httpx.InvalidURL) as error:  # fmt: skip
            return self._nobody(self.url, error)
        except httpx.HTTPError:  # it is there, and busy
            return None
        return self._locked(url, status) if status in (401, 403) else None

    def _client(self) -> httpx.Client:
        import httpx

        key = os.environ.get(self.key_variable)
        return httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(self.timeout, connect=min(CONNECT, self.timeout)),
            limits=httpx.Limits(max_connections=self.parallel),
            mounts={f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")},
        )

    def _nobody(self, url: str, error: Exception) -> str:
        """What to do where no server answers."""
        remedy = f"start one, for instance `vllm serve {self.model}`, or set llm.url."
        if url.startswith(OPENAI):
            remedy = (
                f"OpenAI's models need a network, and a key in the environment variable "
                f"{self.key_variable} (llm.key_variable names another); or set llm.url."
            )
        return f"No server answers at {url} ({error}): {remedy}"

    def _locked(self, url: str, status: int) -> str:
        return (
            f"{url} wants a key ({status}): put it in the environment variable "
            f"{self.key_variable}, or name another with llm.key_variable."
        )

    def _asked(self, client: httpx.Client, request: Request, over: threading.Event) -> Reply:
        """The reply, after trying again what may pass. Raises _PassingError when it does not, or
        the batch is over."""
        for attempt in range(self.attempts):
            try:
                return self._reply(client, request)
            except _PassingError as error:
                if attempt == self.attempts - 1:
                    raise
                if over.wait(min(60.0, max(error.after, self.wait * 4**attempt))):
                    raise
        raise AssertionError

    def _reply(self, client: httpx.Client, request: Request) -> Reply:
        import httpx

        chat = not isinstance(request.prompt, str)
        url = f"{self.url.rstrip('/')}/{'chat/completions' if chat else 'completions'}"
        try:
            response = self._sent(client, url, self._body(request))
        except (httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout):
            raise _PassingError(
                f"{url} gave no reply in {self.timeout:g} s: raise llm.timeout or lower "
                "llm.parallel."
            ) from None
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
            raise _PassingError(f"{url} cut off its reply ({error}): see its log.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ClaimflowError(self._nobody(url, error)) from None
        if response.status_code in (400, 413, 422):
            return Reply(error=f"the server refused the request: {_reason(response)}")
        if response.status_code in (401, 403):
            raise ClaimflowError(self._locked(url, response.status_code))
        if response.status_code == 404 and self.adapter:
            raise ClaimflowError(
                f"{url} has no adapter {self._model()} (404). Start it with `--enable-lora "
                f"--lora-modules {self._model()}={self.adapter}`. {_reason(response)}"
            )
        if response.status_code == 404:
            raise ClaimflowError(
                f"{url} knows no model {self.model} (404): set llm.model or llm.url. "
                f"{_reason(response)}".rstrip()
            )
        after = retry_after(response.headers.get("Retry-After")) or 0.0
        if response.status_code == 429:
            raise _PassingError(f"{url} is overloaded (429): lower llm.parallel, or wait.", after)
        if response.status_code != 200:
            raise _PassingError(
                f"{url} failed ({response.status_code}): see its log. {_reason(response)}".rstrip(),
                after,
            )
        return self._read(response, chat, request)

    def _sent(self, client: httpx.Client, url: str, body: dict[str, Any]) -> httpx.Response:
        """The whole response. httpx.ReadTimeout also where one trickles in for too long."""
        import httpx

        end = time.monotonic() + self.timeout
        with client.stream("POST", url, json=body) as response:
            parts = []
            for part in response.iter_raw():
                parts.append(part)
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("late")
            headers = {name: value for name, value in response.headers.items()
                       if name != "content-length"}  # fmt: skip
            return httpx.Response(response.status_code, headers=headers, content=b"".join(parts))

    def _model(self) -> str:
        """The name to ask for; of the adapter, its digest as it was when first asked."""
        return adapters.name(self.adapter) if self.adapter else self.model

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model(),
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
        }
        if isinstance(request.prompt, str):
            body["prompt"] = request.prompt
        else:
            body["messages"] = [_turn(message) for message in request.prompt]
        if request.stop:
            body["stop"] = request.stop
        if request.logprobs or request.choices:
            likely = MOST_LIKELY if request.choices else 1
            if isinstance(request.prompt, str):
                body["logprobs"] = likely
            else:
                body |= {"logprobs": True, "top_logprobs": likely}
        if request.json_schema is not None:
            schema = {"name": "reply", "strict": True, "schema": request.json_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _read(self, response: httpx.Response, chat: bool, request: Request) -> Reply:
        try:
            data = response.json()
            choice, usage = data["choices"][0], data.get("usage") or {}
            reason = str(choice.get("finish_reason") or "stop").lower()
            if reason in _BROKEN_OFF:
                return Reply(error=f"the server broke off the reply: {reason}")
            counts = [usage.get(f"{what}_tokens") for what in ("prompt", "completion")]
            values, scores = None, []
            if request.logprobs or request.choices:
                made = choice["logprobs"]
                if chat:
                    values = [token["logprob"] for token in made["content"]]
                else:
                    values = made["token_logprobs"]
            if request.choices:
                if chat:
                    likely = {t["token"]: t["logprob"] for t in made["content"][0]["top_logprobs"]}
                else:
                    likely = made["top_logprobs"][0]
                if unlikely := [word for word in request.choices if word not in likely]:
                    return Reply(
                        error=f"the server tells the {len(likely)} likeliest tokens, and "
                        f"{', '.join(unlikely)} is none of them"
                    )
                scores = [likely[word] for word in request.choices]
            return Reply(
                text=(choice["message"]["content"] or "") if chat else choice["text"],
                prompt_tokens=counts[0] or 0,
                completion_tokens=counts[1] or 0,
                uncounted=None in counts,
                # Servers have many words for the end that a model came to.
                finish_reason="length" if reason in _FULL else "stop",
                logprobs=values if request.logprobs else None,
                scores=scores,
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise _PassingError(
                f"{self.url} sent no completion that OpenAI's interface knows ({error!r}): "
                f"{response.text[:80]!r}. Is llm.url right?"
            ) from None


class _PassingError(ClaimflowError):
    """A failure that may pass. after: seconds that the server asks to wait."""

    def __init__(self, text: str, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after


def _turn(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def _reason(response: httpx.Response) -> str:
    """What the server says, on one line."""
    try:
        data = response.json()
        text = str(data["error"]["message"] if "error" in data else data["message"])
    except (ValueError, KeyError, TypeError):
        text = response.text
    return " ".join(text.split())[:200]
