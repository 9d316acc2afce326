from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

import tokenweir.judge  # noqa: F401  it has metrics of its own
from base.errors import BadInput, Retryable
from base.tenancy import OwnTenant, narrowed
from tokenweir.http import (
    Admission,
    Entry,
    Readiness,
    Wish,
    add_not_found,
    create_api,
    peer_is_loopback,
)

KEY = "twk_right"
OF_ACME = "twk_of_acme"


def enter(key: str | None, _loopback: bool, wish: Wish) -> Admission:
    if key == OF_ACME:
        return Admission(Entry.OPEN, "acme")
    if key != KEY:
        return Admission(Entry.UNKNOWN)
    return Admission(Entry.FORBIDDEN if wish is Wish.CHANGE else Entry.OPEN)


def app_with(readiness: Readiness | None = None, *, healthy: bool = True) -> FastAPI:
    app = create_api(
        readiness or Readiness([]),
        lambda: healthy,
        enter,
    )

    @app.get("/api/v1/thing")
    def thing(n: int) -> dict[str, int]:
        if n == 0:
            raise BadInput("n is 0: give a number above 0")
        if n == 1:
            raise Retryable("the store is busy", after=timedelta(seconds=2.5))
        return {"n": n}

    @app.get("/api/v1/of-tenant")
    def of_tenant(own: OwnTenant, tenant: str | None = None) -> dict[str, str | None]:
        return {"tenant": narrowed(tenant, own)}

    @app.get("/page")
    def page(own: OwnTenant) -> str:
        return own or "all"

    return app


@pytest.fixture
def client() -> TestClient:
    return TestClient(app_with(), headers={"authorization": f"Bearer {KEY}"})


def test_not_ready_says_why_and_ready_says_so() -> None:
    readiness = Readiness(["the log is being replayed"])
    client = TestClient(app_with(readiness))

    answer = client.get("/-/ready")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "reasons": ["the log is being replayed"]}

    readiness.reasons.clear()
    assert client.get("/-/ready").status_code == 200


def test_health_follows_the_store() -> None:
    assert TestClient(app_with(healthy=True)).get("/-/healthy").status_code == 200
    assert TestClient(app_with(healthy=False)).get("/-/healthy").status_code == 503


def test_nobody_enters_without_a_key_and_the_answer_says_how() -> None:
    answer = TestClient(app_with()).get("/api/v1/thing?n=5")

    assert answer.status_code == 401
    assert "Bearer twk_" in answer.json()["error"]["todo"]
    assert "Basic" in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"x-api-key": KEY},
        {"authorization": "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode()},
    ],
)
def test_a_key_is_taken_from_where_programs_and_browsers_put_it(headers: dict[str, str]) -> None:
    assert TestClient(app_with()).get("/api/v1/thing?n=5", headers=headers).json() == {"n": 5}


@pytest.mark.parametrize("path", ["/api/v1/thing?n=5", "/metrics", "/page", "/api/v1/nothing"])
def test_a_key_of_a_tenant_is_refused_where_nobody_thought_of_tenants(path: str) -> None:
    app = app_with()
    add_not_found(app)

    answer = TestClient(app).get(path, headers={"x-api-key": OF_ACME})

    assert answer.status_code == 403
    assert "tenant" in answer.json()["error"]["message"]


def test_a_key_of_a_tenant_reads_its_own_and_no_other() -> None:
    client = TestClient(app_with(), headers={"x-api-key": OF_ACME})

    assert client.get("/api/v1/of-tenant").json() == {"tenant": "acme"}
    assert client.get("/api/v1/of-tenant?tenant=acme").json() == {"tenant": "acme"}
    assert client.get("/api/v1/of-tenant?tenant=globex").status_code == 403
    assert client.get("/-/ready").status_code == 200


def test_a_key_without_a_tenant_reads_whichever_it_asks_for(client: TestClient) -> None:
    assert client.get("/api/v1/of-tenant?tenant=globex").json() == {"tenant": "globex"}
    assert client.get("/api/v1/of-tenant").json() == {"tenant": None}


@pytest.mark.parametrize("value", ["Basic !!!", "Basic " + base64.b64encode(b"\xff").decode(), ""])
def test_a_broken_header_is_no_key(value: str) -> None:
    answer = TestClient(app_with()).get("/api/v1/thing?n=5", headers={"authorization": value})

    assert answer.status_code == 401


def test_bad_input_is_400_with_the_reason(client: TestClient) -> None:
    answer = client.get("/api/v1/thing?n=0")

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "n is 0: give a number above 0"


def test_what_may_work_later_is_503_with_a_delay(client: TestClient) -> None:
    answer = client.get("/api/v1/thing?n=1")

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "3"


def test_a_wrong_parameter_is_named(client: TestClient) -> None:
    answer = client.get("/api/v1/thing?n=many")

    assert answer.status_code == 422
    assert "query.n" in answer.json()["error"]["message"]


def test_a_role_that_only_reads_cannot_change_anything(client: TestClient) -> None:
    answer = client.post("/api/v1/thing?n=5")

    assert answer.status_code == 403
    assert "role" in answer.json()["error"]["message"]


def test_a_page_refresh_is_a_post_that_reads(client: TestClient) -> None:
    assert client.post("/_dash-update-component").status_code == 404


def test_an_unknown_api_path_is_json_and_not_a_page() -> None:
    app = app_with()
    add_not_found(app)

    answer = TestClient(app, headers={"x-api-key": KEY}).get("/api/v1/nothing")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "there is no /api/v1/nothing"


def test_an_http_exception_has_the_same_shape_as_every_error(client: TestClient) -> None:
    assert client.get("/nowhere").json() == {"error": {"status": 404, "message": "Not Found"}}


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for", "x-real-ip"])
def test_who_comes_through_a_proxy_is_not_on_this_machine(header: str) -> None:
    scope = {"type": "http", "client": ("127.0.0.1", 1), "headers": [(header.encode(), b"x")]}

    assert not peer_is_loopback(Request(scope))
    assert peer_is_loopback(Request({**scope, "headers": []}))


def test_own_metrics_are_in_prometheus_text(client: TestClient) -> None:
    assert "# TYPE tokenweir_" in client.get("/metrics").text
