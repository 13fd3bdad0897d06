"""A grader behind HTTP: real requests to a small server, which breaks in several ways."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_envs.sandbox import levels
from plat_envs.sandbox.levels import HONEST
from plat_envs.sandbox.program import Call, Limits, Program, Test
from plat_envs.sandbox.sandbox import Sandbox

Answer = Callable[[dict[str, Any]], tuple[int, Any]]
RAW = 0


def grader(question: dict[str, Any]) -> tuple[int, Any]:
    """A grader that runs programs in the sandbox of this machine."""
    outcomes = Sandbox(limits=Limits(**question["limits"])).run(
        Program(question["program"], question["function"]), question["stdins"]
    )
    return 200, {"outcomes": [{**vars(outcome), "stdout": outcome.stdout.decode()} for outcome in outcomes]}


@contextmanager
def serving(*answers: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that gives these answers in turn, then the last one: its URL, and the questions so far.

    An answer is a status and a value, or RAW and all bytes of the response.
    """
    left, questions = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            questions.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            code, value = (left.pop(0) if len(left) > 1 else left[0])(questions[-1])
            if code == RAW:
                self.wfile.write(value)
                return
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", questions
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "FIRST_PAUSE", 0.001)


def test_a_grader_runs_and_the_parent_compares():
    with serving(grader) as (url, questions):
        sandbox = Sandbox("remote", url=url, for_language_model=True)
        assert sandbox.grade(Program("print(input())"), [Test("a", "a"), Test("b", "c")]).passed == [True, False]
        assert sandbox.grade(Program("f = abs", "f"), [Call([-1], 1), Call([-1], True)]).passed == [True, False]
        assert sandbox.provenance() == {"level": "remote", "url": url}
    assert questions[-1]["stdins"] == ["[-1]", "[-1]"] and questions[-1]["limits"]["wall_seconds"] == 21.0
    assert "expected" not in json.dumps(questions)


def canned(said_by_hostile: str) -> Answer:
    """A grader that runs nothing: it answers the honest program of the probe, and says the same for all others."""

    def answer(question: dict[str, Any]) -> tuple[int, Any]:
        texts = ["42" if stdin == HONEST else said_by_hostile for stdin in question["stdins"]]
        return 200, {"outcomes": [{"status": "ok", "stdout": text} for text in texts]}

    return answer


def test_the_first_level_that_can_be_had_may_be_a_grader(monkeypatch):
    real = levels.problem_of
    monkeypatch.setattr(levels, "problem_of", lambda name, url=None: real(name, url) if name == "remote" else "none")
    with serving(canned("")) as (url, _):
        assert levels.choose(url=url) == "remote"


def test_a_grader_that_lets_hostile_programs_through_is_refused():
    with serving(canned("it worked")) as (url, _), pytest.raises(BadEnvironment, match="a hostile program read a file"):
        Sandbox("remote", url=url)


def test_a_grader_that_is_away_is_tried_again_by_the_next_call():
    away = [lambda _: (503, b"")] * levels.ATTEMPTS
    with serving(*away, canned("")) as (url, _):
        with pytest.raises(ServiceError, match="answered 503"):
            levels.choose("remote", url)
        assert levels.choose("remote", url) == "remote"


def test_it_is_asked_again_after_a_failure():
    with serving(lambda _: (503, b""), lambda _: (500, b""), grader) as (url, questions):
        box = levels.RemoteBox(url, Limits())
        assert [outcome.stdout for outcome in box.run_each(Program("print(1)"), [b""])] == [b"1\n"]
    assert len(questions) == 3


def test_a_grader_that_is_gone_is_an_error_never_a_grade():
    with serving(lambda _: (500, b"oops")) as (url, questions), pytest.raises(BadEnvironment, match="answered 500"):
        levels.RemoteBox(url, Limits()).run_each(Program(""), [b""])
    assert len(questions) == levels.ATTEMPTS
    with pytest.raises(BadEnvironment, match="refused"):
        levels.RemoteBox(url, Limits()).run_each(Program(""), [b""])


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
        b"garbage \x1b[1m" * 1000 + b"\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.0 302 Found\r\nLocation: http://a..b/\r\n\r\n",
        b"",
    ],
    ids=["short", "no status", "long line", "bad chunk", "no address", "nothing"],
)
def test_broken_http_is_a_grader_that_does_not_answer(response):
    with (
        serving(lambda _: (RAW, response)) as (url, questions),
        pytest.raises(ServiceError, match=r"not answer: .") as raised,
    ):
        levels.RemoteBox(url, Limits()).run_each(Program(""), [b""])
    assert raised.value.what.isprintable() and len(raised.value.what) < 300
    assert len(questions) == levels.ATTEMPTS


def test_a_question_that_it_does_not_understand_is_not_asked_again():
    with serving(lambda _: (404, b"")) as (url, questions), pytest.raises(BadEnvironment, match="answered 404"):
        levels.RemoteBox(url, Limits()).run_each(Program(""), [b""])
    assert len(questions) == 1


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"{", {"outcomes": []}, {"outcomes": [{"status": "passed", "stdout": ""}]}, {"outcomes": 3},
     {"outcomes": [{"status": "ok"}]}, {"outcomes": [[]]}, b"[" * 100000,
     {"outcomes": [{"status": "ok", "stdout": None}]}, {"outcomes": [{"status": "ok", "stdout": "", "stderr": None}]},
     {"outcomes": [{"status": "ok", "stdout": "", "exit_code": float("inf")}]}],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_an_error(answer):
    with serving(lambda _: (200, answer)) as (url, _), pytest.raises(BadEnvironment, match="cannot be read"):
        levels.RemoteBox(url, Limits()).run_each(Program(""), [b""])


@pytest.mark.parametrize(
    "address",
    ["file:///etc/passwd", "http://127.0.0.1:abc/", "http://127.0.0.1:99999/", "http://a..b/", "http://127.0.0.1:1/ä",
     "http://127.0.0.1:1/a b", "http://", "http://[::1/", ""],
)  # fmt: skip
def test_an_address_has_to_be_one(address):
    with pytest.raises(BadEnvironment, match="the grader's address is ") as raised:
        levels.RemoteBox(address, Limits())
    assert repr(address) in raised.value.what


@pytest.mark.parametrize("address", ["http://h:1/?x=1#y", "http://me:secret@h:1/?x=1"])
def test_a_part_of_an_address_that_no_request_carries_is_refused(address):
    with pytest.raises(BadEnvironment, match="which no request carries") as raised:
        levels.RemoteBox(address, Limits())
    assert raised.value.fix == "write http://h:1/?x=1"
    levels.RemoteBox("http://h:1/?x=1", Limits())
