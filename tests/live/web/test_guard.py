"""Which requests are allowed."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from nanopace.live.web.guard import Guard
from nanopace.wording.catalog import words

TOKEN = "a-token-of-ours"


def client(*, token: str | None = None, host: str = "127.0.0.1", at: str = "127.0.0.1:8765") -> TestClient:
    async def page(_: object) -> PlainTextResponse:
        return PlainTextResponse("the page")

    methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS"]
    app = Starlette(routes=[Route("/", page, methods=methods)])
    return TestClient(Guard(app, words("de"), host=host, token=token), base_url=f"http://{at}", follow_redirects=False)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8765", 200),
        ("localhost:8765", 200),
        ("[::1]:8765", 200),
        ("LOCALHOST", 200),
        ("evil.example:8765", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.0.7:8765", 403),
        ("localhost@evil.example", 403),
        ("evil.example#localhost", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_only_a_name_of_this_machine_is_answered(host: str, code: int) -> None:
    assert client().get("/", headers={"host": host}).status_code == code


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        ("http://127.0.0.1:8765", 200),
        ("http://127.0.0.1:9999", 403),
        ("http://localhost:8765", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_another_site_may_not_read(origin: str, code: int) -> None:
    assert client().get("/", headers={"origin": origin}).status_code == code


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(method: str) -> None:
    assert client().request(method, "/").status_code == 405


def test_the_token_is_needed_once_and_then_kept_as_a_cookie() -> None:
    asked = client(token=TOKEN, host="0.0.0.0", at="192.168.0.7:8765")
    refused = asked.get("/")
    assert refused.status_code == 401
    assert "Adresse" in refused.text
    assert asked.get("/?token=wrong").status_code == 401
    assert asked.get("/", headers={"cookie": "nanopace-8765=wrong; \x00=;;"}).status_code == 401
    answer = asked.get(f"/?run=a%26b&token={TOKEN}&lang=de")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?run=a%26b&lang=de")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert asked.get("/").text == "the page"


def test_a_token_does_not_make_every_name_ours() -> None:
    asked = client(token=TOKEN, host="gpu-box", at="gpu-box:8765")
    assert asked.get(f"/?token={TOKEN}").status_code == 303
    assert asked.get(f"/?token={TOKEN}", headers={"host": "evil.example"}).status_code == 403


def test_every_answer_forbids_frames_and_guesses() -> None:
    for answer in (client().get("/"), client().post("/"), client().get("/", headers={"host": "evil.example"})):
        assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
