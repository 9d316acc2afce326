import pytest

from stack.wire.exposure import is_loopback, warn_if_exposed


@pytest.mark.parametrize(
    ("address", "only_here"),
    [
        ("127.0.0.1:8000", True),
        ("127.9.9.9:0", True),
        ("localhost:8000", True),
        ("[::1]:8000", True),
        (":8000", True),  # the default host is 127.0.0.1
        ("0.0.0.0:8000", False),
        ("[::]:8000", False),
        ("10.1.2.3:8000", False),
        ("gateway.internal:8000", False),
    ],
)
def test_only_loopback_is_out_of_reach(address: str, *, only_here: bool) -> None:
    assert is_loopback(address) is only_here


def test_the_warning_says_what_listens_where_and_what_is_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_if_exposed("127.0.0.1:8000", "gateway", "/metrics")
    warn_if_exposed("0.0.0.0:8000", "gateway", "/metrics /policy")

    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        'open_to_the_network piece=gateway listen=0.0.0.0:8000 without_key="/metrics /policy"'
    )
