"""The engine that asks a server with OpenAI's HTTP interface, against a real HTTP server."""

from __future__ import annotations

import datetime
import email.utils
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.cache import Cache
from components.engines.adapter import name
from components.engines.base import Message, Request, engines_in
from components.engines.openai import OpenAiEngine
from components.errors import ClaimflowError
from components.reason.combined import Ensemble
from components.reason.fit import fitted
from components.reason.gold import RuleVerdict
from components.reason.llm_verdict import LlmVerdict
from components.retries import retry_after
from components.score.judge import cost
from components.step import Context, identity
from flows.stages import warn_of_servers
from tests.conftest import compose


def greedy(*prompts: str, **more: Any) -> list[Request]:
    return [Request(prompt=prompt, **{"max_tokens": 8, **more}) for prompt in prompts]


def kept(ctx: Context) -> int:
    return len(list((ctx.cache.folder / "actions").glob("*/*")))


class Server(http.server.ThreadingHTTPServer):
    """Repeats the prompt's last word; `status` gives what some prompts get instead."""

    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status: dict[str, int] = {}
        self.passing: dict[str, int] = {}  # how often a prompt is turned away at first
        self.ends: dict[str, Any] = {}  # finish_reason by prompt
        self.usage = True
        self.models = 404  # status of /models, which not every server has
        self.later: Callable[[], str] = lambda: "0"  # what Retry-After says
        self.broken: dict[str, list[str]] = {}  # what happens first: "hangs", "trickles", "cuts"
        self.over = threading.Event()
        self.asked: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(self.server.models)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body | {"path": self.path, "key": self.headers["Authorization"]})
        chat = self.path.endswith("/chat/completions")
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        status = self.server.status.get(prompt, 200)
        if self.server.passing.get(prompt, 0) > 0:
            self.server.passing[prompt] -= 1
            status = 429
        broken = self.server.broken.get(prompt, [])
        fault = broken.pop(0) if broken else ""
        if fault == "hangs":
            self.server.over.wait(20)
            return
        word = prompt.split()[-1]
        choice: dict[str, Any] = {"finish_reason": self.server.ends.get(prompt, "stop")}
        if chat:
            choice["message"] = {"role": "assistant", "content": word}
            choice["logprobs"] = {"content": [{"token": word, "logprob": -0.5}]}
        else:
            choice |= {"text": word, "logprobs": {"token_logprobs": [-0.25]}}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 1}
        answer = {"choices": [choice]} | ({"usage": usage} if self.server.usage else {})
        if status != 200:
            answer = {"error": {"message": f"status {status}"}}
        data = json.dumps(answer).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", self.server.later())
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault == "trickles":
            for n in range(len(data)):
                if self.server.over.wait(0.05):
                    return
                self.wfile.write(data[n : n + 1])
        self.wfile.write(data[:20] if fault == "cuts" else data)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.over.set()
        running.shutdown()


def remote(server: Server, **more: Any) -> OpenAiEngine:
    return OpenAiEngine(url=server.url, model="echo", **({"wait": 0.01} | more))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("7", 7), (" 0.5 ", 0.5), ("", None), (None, None), ("soon", None), ("-3", None),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 21 Oct 2015 07:28:00 -0000", 0)],
)  # fmt: skip
def test_when_to_ask_again(said: str | None, seconds: float | None) -> None:
    assert retry_after(said) == seconds


def test_a_server_that_names_a_date_is_asked_again_then(server: Server, tmp_path: Path) -> None:
    at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    server.later = lambda: email.utils.format_datetime(at, usegmt=True)
    server.passing = {"say 1": 1}
    start = time.monotonic()
    [reply] = remote(server).generate(list(greedy("say 1")), Context(Cache(tmp_path)))
    assert reply.text == "1"
    assert 0.9 < time.monotonic() - start < 4


def test_a_server_is_asked_for_prompts_and_chats(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "s3cret")
    ctx = Context(Cache(tmp_path))
    schema = {"type": "object", "properties": {"label": {"type": "string"}}}
    requests = [
        *greedy(*(f"say {i}" for i in range(20)), stop=["."], logprobs=True),
        Request(
            prompt=[Message(role="user", content="tell me")], json_schema=schema, logprobs=True
        ),
    ]
    replies = remote(server, key_variable="OTHER_KEY").generate(requests, ctx)
    assert [reply.text for reply in replies] == [*map(str, range(20)), "me"]
    assert replies[0].logprobs == [-0.25]
    assert replies[20].logprobs == [-0.5]
    assert ctx.tokens == {"prompt": 42, "completion": 21}
    asked = {body["path"]: body for body in server.asked}
    assert asked["/v1/completions"]["stop"] == ["."]
    assert asked["/v1/completions"]["max_tokens"] == 8
    assert asked["/v1/completions"]["key"] == "Bearer s3cret"
    assert asked["/v1/chat/completions"]["response_format"]["json_schema"]["schema"] == schema
    count = len(server.asked)
    assert remote(server).generate(requests, ctx) == replies
    assert len(server.asked) == count


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "OPENAI_API_KEY"), (404, "no model echo")],
)
def test_a_server_in_trouble_loses_no_reply(
    server: Server, tmp_path: Path, status: int, words: str
) -> None:
    ctx = Context(Cache(tmp_path))
    server.status["say 2"] = status
    engine = remote(server, parallel=1)
    with pytest.raises(ClaimflowError, match=words):
        engine.generate(greedy("say 0", "say 1", "say 2"), ctx)
    assert kept(ctx) == 2
    server.status.clear()
    server.asked.clear()
    replies = engine.generate(greedy("say 0", "say 1", "say 2"), ctx)
    assert [reply.text for reply in replies] == ["0", "1", "2"]
    assert [body["prompt"] for body in server.asked] == ["say 2"]


@pytest.mark.parametrize(("status", "words"), [(429, "overloaded"), (503, "failed (503)")])
def test_what_always_fails_costs_itself_alone(
    server: Server, tmp_path: Path, status: int, words: str
) -> None:
    ctx = Context(Cache(tmp_path))
    server.status["say 2"] = status
    prompts = [f"say {i}" for i in range(30)]
    replies = remote(server, parallel=2, attempts=3).generate(greedy(*prompts), ctx)
    assert [i for i, reply in enumerate(replies) if reply.error] == [2]
    assert words in str(replies[2].error)
    assert sum(body["prompt"] == "say 2" for body in server.asked) == 3
    assert kept(ctx) == 29


def test_what_fails_for_a_moment_is_sent_again(server: Server, tmp_path: Path) -> None:
    prompts = [f"say {i}" for i in range(40)]
    server.passing = dict.fromkeys(prompts[::3], 2)
    replies = remote(server, parallel=4).generate(greedy(*prompts), Context(Cache(tmp_path)))
    assert [reply.text for reply in replies] == [str(i) for i in range(40)]
    assert len(server.asked) == 40 + 2 * 14


def test_a_server_may_say_little(server: Server, tmp_path: Path) -> None:
    """No usage, and other words for the end of a reply."""
    server.usage = False
    ends = {"eos": "stop", None: "stop", "end_turn": "stop", "Max_Tokens": "length", "abort": None}
    server.ends = {f"say {i}": end for i, end in enumerate(ends)}
    ctx = Context(Cache(tmp_path))
    replies = remote(server).generate(greedy(*server.ends), ctx)
    for i, (reply, meant) in enumerate(zip(replies, ends.values(), strict=True)):
        assert (reply.text, reply.finish_reason) == ((str(i), meant) if meant else ("", "stop"))
    assert replies[-1].error == "the server broke off the reply: abort"
    assert ctx.tokens == {"prompt": 0, "completion": 0}
    assert cost(ctx)[0].startswith("The server did not say the tokens of 4 of the judge's replies")


@pytest.mark.parametrize("fault", ["hangs", "trickles", "cuts"])
def test_a_reply_that_breaks_off_is_asked_for_again(
    server: Server, tmp_path: Path, fault: str
) -> None:
    """Once, and the next is whole; always, and it costs itself alone."""
    ctx = Context(Cache(tmp_path))
    server.broken = {"say 3": [fault], "say 7": [fault] * 9}
    prompts = [f"say {i}" for i in range(10)]
    engine = remote(server, parallel=2, attempts=2, timeout=0.5)
    replies = engine.generate(greedy(*prompts), ctx)
    assert [i for i, reply in enumerate(replies) if reply.error] == [7]
    words = "cut off its reply" if fault == "cuts" else "no reply in 0.5 s: raise llm.timeout"
    assert words in str(replies[7].error)
    assert [reply.text for reply in replies if not reply.error] == [*"0123456", *"89"]
    assert kept(ctx) == 9


def test_evidence_is_cut_by_the_context_that_is_said(server: Server, tmp_path: Path) -> None:
    ctx = Context(Cache(tmp_path))

    def make(size: int | None) -> Request:
        pairs = [f"Question {n}? {'answer ' * 40 * (n + 1)}"[:size] for n in range(3)]
        return Request(prompt=[Message(role="user", content="\n".join(pairs))], max_tokens=20)

    whole, cut = fitted(remote(server), make, 900, ctx)
    assert (whole, cut) == (make(None), False)
    short, cut = fitted(remote(server, context=100), make, 900, ctx)
    assert cut
    text = short.prompt[0].content  # type: ignore[union-attr]
    assert 200 < len(text) <= (100 - 20 - 8) * 3
    assert all(f"Question {n}?" in text for n in range(3))
    # A step that cuts by it is another one; a reply to the same prompt is the same.
    assert identity(remote(server)) != identity(remote(server, context=100))
    assert remote(server)._keys([short]) == remote(server, context=100)._keys([short])


def test_an_adapter_is_asked_for_by_the_name_of_its_content(server: Server, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        config = {"base_model_name_or_path": "echo", "r": ord(folder.name)}
        (folder / "adapter_config.json").write_text(json.dumps(config))
    ctx = Context(Cache(tmp_path / "cache"))
    first, second = (remote(server, adapter=folder) for folder in folders)
    for engine in (first, second, remote(server), first):
        engine.generate(greedy("say 1"), ctx)
    names = [body["model"] for body in server.asked]
    assert names == [name(folders[0]), name(folders[1]), "echo"]
    assert len(names[0]) == 16
    server.status["say 2"] = 404
    with pytest.raises(
        ClaimflowError, match=f"--enable-lora --lora-modules {names[0]}={folders[0]}"
    ):
        first.generate(greedy("say 2"), ctx)
    with pytest.raises(ClaimflowError, match="describes no adapter"):
        remote(server, adapter=tmp_path)


def test_a_refused_request_costs_itself_alone(server: Server, tmp_path: Path) -> None:
    ctx = Context(Cache(tmp_path))
    server.status["say 0"] = 400
    bad, good = remote(server).generate(greedy("say 0", "say 1"), ctx)
    assert bad.error == "the server refused the request: status 400"
    assert good.text == "1"
    assert kept(ctx) == 1


@pytest.mark.timeout(60)
def test_a_server_that_fails_for_all_ends_the_batch(server: Server, tmp_path: Path) -> None:
    """More requests wait than may run at once, and every one fails."""
    prompts = [f"say {i}" for i in range(200)]
    server.status.update(dict.fromkeys(prompts, 503))
    start = time.monotonic()
    with pytest.raises(ClaimflowError, match=r"failed \(503\)"):
        remote(server, parallel=4, attempts=2, wait=1.0).generate(
            greedy(*prompts), Context(Cache(tmp_path))
        )
    # Four at once, twice; what had begun when these had failed is not tried a second time.
    assert 8 <= len(server.asked) <= 13
    assert time.monotonic() - start < 1.9


def test_a_server_of_this_machine_is_behind_no_proxy(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as gone:
        monkeypatch.setenv("HTTP_PROXY", gone.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    (reply,) = remote(server).generate(greedy("say 1"), Context(Cache(tmp_path)))
    assert reply.text == "1"
    with pytest.raises(ClaimflowError, match="No server answers"):
        OpenAiEngine(url="http://llm.example/v1", model="echo").generate(
            greedy("say 1"), Context(Cache(tmp_path))
        )


def test_whether_a_server_is_there_is_known_before_it_is_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert remote(server).away() is None
    server.models = 401
    said = remote(server).away()
    assert said
    assert "wants a key (401)" in said
    assert "OPENAI_API_KEY" in said
    with Server() as gone:
        url = gone.url
    said = OpenAiEngine(url=url, model="echo").away()
    assert said
    assert said.startswith(f"No server answers at {url} (")
    steps = {"a": Ensemble(members={"x": LlmVerdict(engine=remote(server)), "y": RuleVerdict()})}
    assert list(engines_in([steps])) == [remote(server)]


def test_a_run_says_first_that_a_server_is_away(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(url: str) -> str:
        words = ("llm=openai", f"llm.url={url}", "questioner=zero_shot", "verdict=llm")
        warn_of_servers(compose(*words))
        return capsys.readouterr().err

    assert said(server.url) == ""
    with Server() as gone:
        pass
    assert said(gone.url).count(f"warning: No server answers at {gone.url}") == 1


def test_openai_wants_a_key_and_no_server_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as gone:
        monkeypatch.setenv("HTTPS_PROXY", gone.url)  # no way there
    said = OpenAiEngine(url="https://api.openai.com/v1", model="gpt-4o").away()
    assert said
    assert "a key in the environment variable OPENAI_API_KEY (llm.key_variable" in said
    assert "vllm serve" not in said


def test_no_server(tmp_path: Path) -> None:
    with Server() as gone:
        url = gone.url
    engine = OpenAiEngine(url=url, model="echo")
    assert engine.outside
    with pytest.raises(ClaimflowError, match=r"No server answers at .* or set llm\.url"):
        engine.generate(greedy("Hello"), Context(Cache(tmp_path)))
