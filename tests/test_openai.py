"""The engine that asks a server with OpenAI's HTTP interface, against a real HTTP server."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.cache import Cache
from components.engines.base import Message, Request
from components.engines.openai import OpenAiEngine
from components.errors import ClaimflowError
from components.score.judge import cost
from components.step import Context


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
        self.asked: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body | {"path": self.path, "key": self.headers["Authorization"]})
        chat = self.path.endswith("/chat/completions")
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        status = self.server.status.get(prompt, 200)
        if self.server.passing.get(prompt, 0) > 0:
            self.server.passing[prompt] -= 1
            status = 429
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
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def remote(server: Server, **more: Any) -> OpenAiEngine:
    return OpenAiEngine(url=server.url, model="echo", **({"wait": 0.01} | more))


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
    with pytest.raises(ClaimflowError, match=r"failed \(503\)"):
        remote(server, parallel=4).generate(greedy(*prompts), Context(Cache(tmp_path)))
    assert len(server.asked) < len(prompts)


def test_no_server(tmp_path: Path) -> None:
    with Server() as gone:
        url = gone.url
    engine = OpenAiEngine(url=url, model="echo")
    assert engine.outside
    with pytest.raises(ClaimflowError, match=r"No server answers at .* or set llm\.url"):
        engine.generate(greedy("Hello"), Context(Cache(tmp_path)))
