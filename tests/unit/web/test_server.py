"""The server runs what it offers, streams what comes out, and answers nobody but its own page."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from drywell.host.page import page_of, path_of
from drywell.report.page_data import encode_page, read_page
from drywell.web.server import Service
from kernel_folder import fill

HERE = "http://127.0.0.1:8020"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    fill(folder)
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    app = Service(folder, folder / "tmem_roundtrip.toml").app()
    with TestClient(app, base_url=HERE) as client:
        yield client


def events(text: str) -> list[tuple[str, Any]]:
    """Read a stream of events."""
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    assert text == "".join(f"event: {kind}\ndata: {data}\n\n" for kind, data in found)
    return [(kind, json.loads(data)) for kind, data in found]


def test_the_page_knows_what_can_be_run(client: TestClient) -> None:
    told = client.get("/api/launches").json()
    assert told["opened"] == "folder/tmem_roundtrip.toml"
    assert {"folder/spin.toml", "examples/gemm.toml"} <= {launch["name"] for launch in told["launches"]}
    assert (told["schedules"], told["checks"]) == (
        ["timed", "eager", "lazy", "seeded"],
        ["off", "hw", "ptx", "strict"],
    )
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    embedded = re.search(r'<script type="application/json" id="server">(.*?)</script>', page.text)
    assert embedded is not None
    assert told == json.loads(embedded[1])
    assert '<script type="application/json" id="run"></script>' in page.text


def test_a_run_streams_how_far_it_is_and_then_its_record(client: TestClient, folder: Path) -> None:
    asked = {"launch": "folder/tmem_roundtrip.toml", "schedule": "lazy", "check": "strict"}
    answer = client.post("/api/run", json=asked)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    said = events(answer.text)
    assert said[0] == ("began", {**asked, "seed": None})
    assert said[-1][0] == "run"
    assert {kind for kind, _ in said[1:-1]} <= {"progress"}
    record = read_page(json.dumps(said[-1][1]))
    assert record == page_of(folder / "tmem_roundtrip.toml", schedule="lazy", check="strict")
    assert record.head.schedule == "lazy"


def test_a_kernel_with_a_mistake_comes_back_with_its_findings(client: TestClient) -> None:
    said = events(client.post("/api/run", json={"launch": "folder/tmem_roundtrip_racy.toml"}).text)
    assert said[-1][0] == "run"
    assert "FREE-BEFORE-DONE" in {finding["rule"] for finding in said[-1][1]["findings"]}


def test_what_cannot_be_run_is_said_in_the_stream(client: TestClient) -> None:
    said = events(client.post("/api/run", json={"launch": "folder/absent.toml"}).text)
    assert said[-1][0] == "refused"
    assert "nowhere.ptx" in said[-1][1]["message"]


def test_a_new_run_ends_the_one_under_way(client: TestClient) -> None:
    answers: list[str] = []

    def spin() -> None:
        asked = {"launch": "folder/spin.toml", "schedule": "eager", "check": "off"}
        with client.stream("POST", "/api/run", json=asked) as answer:
            for chunk in answer.iter_text():
                answers.append(chunk)

    spinning = threading.Thread(target=spin)
    spinning.start()
    asked = {"launch": "folder/tmem_roundtrip.toml", "schedule": "eager", "check": "off"}
    for _ in range(100):
        if "began" in "".join(answers):
            break
        spinning.join(0.1)
    said = events(client.post("/api/run", json=asked).text)
    assert said[-1][0] == "run"
    spinning.join(60)
    assert not spinning.is_alive()
    last = events("".join(answers))[-1]
    assert (last[0], "stopped" in last[1]["message"]) == ("refused", True)


def test_any_element_of_an_output_can_be_followed(client: TestClient, folder: Path) -> None:
    answer = client.post("/api/path", json={"launch": "folder/tmem_roundtrip.toml", "element": "B[1,2]"})
    assert answer.status_code == 200, answer.text
    assert answer.content == encode_page(path_of(folder / "tmem_roundtrip.toml", "B[1,2]"))
    assert answer.json()["index"] == [1, 2]
    answer = client.post("/api/path", json={"launch": "folder/tmem_roundtrip.toml", "element": "Z[1,2]"})
    assert "Z" in answer.json()["refused"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"launch": "folder/../x.toml"}, "is no launch file here"),
        ({"launch": "folder/spin.toml", "schedule": "sometimes"}, "cannot be used"),
        ({"launch": "folder/spin.toml", "check": "all"}, "cannot be used"),
        ({"launch": "folder/spin.toml", "seed": "x"}, "cannot be used"),
        ({}, "cannot be used"),
        ({"launch": "x" * 70_000}, "larger than"),
    ],
)
def test_requests_that_make_no_sense_are_refused(client: TestClient, body: dict, words: str) -> None:
    answer = client.post("/api/run", json=body)
    assert answer.status_code == 400
    assert words in answer.text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8020", "localhost.evil.example", "10.0.0.1", ""],
)
def test_a_foreign_host_gets_no_answer(client: TestClient, host: str) -> None:
    for path in ("/", "/api/launches"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403
        assert "gemm" not in answer.text
    assert (
        client.post("/api/run", json={"launch": "folder/spin.toml"}, headers={"Host": host}).status_code
        == 403
    )


@pytest.mark.parametrize("host", ["127.0.0.1:8020", "localhost:8020", "localhost"])
def test_this_machine_gets_one(client: TestClient, host: str) -> None:
    assert client.get("/api/launches", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:8020"]
)
def test_the_page_of_another_origin_gets_no_answer(client: TestClient, origin: str) -> None:
    asked = {"launch": "folder/tmem_roundtrip.toml"}
    answer = client.post("/api/run", json=asked, headers={"Origin": origin})
    assert answer.status_code == 403
    preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/run", headers=preflight)
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_form_of_another_page_cannot_start_a_run(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        body = '{"launch": "folder/tmem_roundtrip.toml"}'
        answer = client.post("/api/run", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 403


def test_no_answer_may_be_framed_kept_or_read_elsewhere(client: TestClient) -> None:
    headers = client.get("/").headers
    assert "connect-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert not any(name.startswith("access-control") for name in headers)


@pytest.fixture
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server as people start it, and its port."""
    command = [sys.executable, "-m", "drywell", "explore", "--port", "0", str(folder / "tmem_roundtrip.toml")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, **pipes, text=True, env=environment) as one:
        try:
            assert one.stdout is not None
            said = one.stdout.readline()
            found = re.match(r"http://127\.0\.0\.1:(\d+)/ shows the launch files of (.*) \(Ctrl-C", said)
            assert found is not None, said
            assert found[2] == str(folder.resolve())
            yield one, int(found[1])
        finally:
            if one.poll() is None:
                one.kill()


def test_the_real_server_runs_a_kernel_and_ends_at_ctrl_c(
    served: tuple[subprocess.Popen[str], int],
) -> None:
    process, port = served
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/api/launches", headers={"Host": "evil.example"})
    refusal = connection.getresponse()
    assert (refusal.status, refusal.read()[:4]) == (403, b"Host")
    body = json.dumps({"launch": "folder/tmem_roundtrip.toml", "schedule": "eager"})
    connection.request("POST", "/api/run", body, {"Content-Type": "application/json"})
    said = events(connection.getresponse().read().decode())
    assert (said[0][0], said[-1][0]) == ("began", "run")
    assert said[-1][1]["head"]["verdict"] == "clean"
    body = json.dumps({"launch": "folder/spin.toml", "schedule": "eager", "check": "off"})
    connection.request("POST", "/api/run", body, {"Content-Type": "application/json"})
    assert connection.getresponse().readline() == b"event: began\n"
    process.send_signal(signal.SIGINT)  # in the middle of a run
    connection.close()
    assert process.wait(60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_a_port_that_is_taken_is_said(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "drywell", "explore", "--port", port]
        said = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    assert said.returncode == 2
    assert "--port 0 takes a free one" in said.stderr
