from pathlib import Path

import pytest

from base.errors import BadInput
from slo.documents import Loaded, read
from slo.prometheus.selector import Matcher, Selector, parse_selector
from slo.prometheus.sli import Counters, Gauge, Histogram, Queries

HEAD = "kind: slo\nname: x\nobjective: 99\nprometheus:\n"
COUNTERS = "  total: 'http_requests_total'\n  bad: 'http_requests_total{code=~\"5..\"}'\n"


def read_text(folder: Path, text: str) -> Loaded:
    path = folder / "slo.yaml"
    path.write_text(text, encoding="utf-8")
    return read([path])


def events_of(folder: Path, section: str) -> object:
    found = read_text(folder, HEAD + section)
    assert found.problems == ()
    (slo,) = found.slos
    assert slo.prometheus is not None
    return slo.prometheus.events


def test_counters_are_read_as_selectors(tmp_path: Path) -> None:
    events = events_of(tmp_path, COUNTERS)

    assert events == Counters(
        Selector("http_requests_total"),
        Selector("http_requests_total", (Matcher("code", "=~", "5.."),)),
        "bad",
    )


@pytest.mark.parametrize(
    ("name", "threshold", "value"),
    [
        ("ttft_seconds", "500ms", 0.5),
        ("ttft_milliseconds", "500ms", 500),
        ("ttft_ms", "1s", 1000),
        ("prompt_tokens", "4096", 4096),
    ],
)
def test_a_threshold_is_in_the_unit_of_the_metric(
    tmp_path: Path, name: str, threshold: str, value: float
) -> None:
    events = events_of(tmp_path, f"  histogram: {name}\n  threshold: {threshold}\n")

    assert events == Histogram(Selector(name), value)


def test_a_unit_that_nobody_knows_is_doubted(tmp_path: Path) -> None:
    found = read_text(tmp_path, HEAD + "  histogram: latency\n  threshold: 1s\n")

    assert "whatever unit latency has" in found.warnings[0]


def test_gauges_native_histograms_and_queries_are_read(tmp_path: Path) -> None:
    query = "  total_query: sum(increase(a[$window]))\n  error_ratio_query: a[$window]\n"

    assert events_of(tmp_path, "  gauge: up\n") == Gauge(Selector("up"))
    native = events_of(tmp_path, "  native_histogram: a_seconds\n  threshold: 2s\n")
    assert native == Histogram(Selector("a_seconds"), 2, native=True)
    queries = events_of(tmp_path, query + "  resolution: 5m\n")
    assert isinstance(queries, Queries)
    assert (queries.part_is, queries.resolution.seconds) == ("ratio", 300)


def test_any_label_can_be_grouped_by(tmp_path: Path) -> None:
    (slo,) = read_text(tmp_path, HEAD + COUNTERS + "group_by: [handler, model_name]\n").slos

    assert slo.group_by == ("handler", "model_name")
    assert (slo.good, slo.eligible) == ((), None)


def test_the_definition_follows_what_is_counted_and_nothing_else(tmp_path: Path) -> None:
    def definition(section: str) -> str:
        (slo,) = read_text(tmp_path, HEAD + section).slos
        return slo.definition

    spelled = COUNTERS.replace("{code=~", "{ code =~ ")
    assert definition(COUNTERS) == definition(spelled + "window: 7d\n")
    assert definition(COUNTERS) != definition(COUNTERS.replace("5..", "4.."))
    assert definition(COUNTERS) != definition(COUNTERS + "  server: main\n")
    assert definition(COUNTERS) != definition(COUNTERS + "group_by: [handler]\n")
    assert definition("  histogram: a_seconds\n  threshold: 1s\n") != definition(
        "  native_histogram: a_seconds\n  threshold: 1s\n"
    )


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("  total: a\n", "line 5: total needs exactly one of bad, good beside it; found none"),
        (COUNTERS + "  good: b\n", "line 7: total needs exactly one of bad, good"),
        ("  total: rate(a[5m])\n  bad: b\n", "line 5: total: 'rate(a[5m])' is not a selector"),
        ("  total: rate(a[5m])\n  bad: b\n", "for what only PromQL can say use total_query"),
        ("  total: a\n  bad: a\n", "total and bad select the same series"),
        ("  bad: a\n", "give one of total with bad or good"),
        ("  gauge: up\n  total: a\n", "found total and gauge"),
        ("  gauge: up\n  bad: a\n", "line 6: bad does not go with gauge"),
        ("  gauge: up\n  threshold: 1s\n", "line 6: threshold does not go with gauge"),
        ("  histogram: a\n", "line 5: threshold is missing: write one such as 500ms"),
        ("  histogram: a\n  threshold: soon\n", "line 6: threshold: duration 'soon' is not like"),
        ("  histogram: a_bucket\n  threshold: 1s\n", "not one of its series: write a"),
        ("  histogram: 'a{le=\"1\"}'\n  threshold: 1s\n", "names the histogram without le"),
        ("  total_query: sum(a)\n  bad_query: b[$window]\n", "line 5: total_query does not say"),
        (
            "  total_query: a[$window]\n  bad_query: b[$window]\n  resolution: 7m\n",
            "line 7: resolution is one of 1m, 2m, 5m and 10m",
        ),
        ("  total: 5\n  bad: b\n", "line 5: total is not text"),
        ("  total: a\n  bad: b\n  colour: red\n", "line 7: unknown field 'colour'"),
        ("  gauge: '{__name__=~\"a|b\"}'\n", "matches several metrics: name one"),
        (COUNTERS + "good: outcome = 'good'\n", "line 7: good filters requests"),
        (COUNTERS + "eligible: tenant = 'a'\n", "line 7: eligible filters requests"),
        (COUNTERS + "group_by: [le]\n", "line 7: group_by 'le' is not a label"),
        (COUNTERS + "group_by: [severity]\n", "would hide the label 'severity' of its alerts"),
        (COUNTERS + "group_by: ['a b']\n", "line 7: group_by 'a b' is not a label's name"),
    ],
)
def test_a_wrong_section_is_named_with_its_line(tmp_path: Path, section: str, says: str) -> None:
    found = read_text(tmp_path, HEAD + section)

    assert found.slos == ()
    assert any(says in problem for problem in found.problems), found.problems


def test_no_section_is_not_an_empty_one(tmp_path: Path) -> None:
    found = read_text(tmp_path, "kind: slo\nname: x\nobjective: 99\nprometheus: {}\n")

    assert "found none of them" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("up", "up"),
        (" up { } ", "up"),
        ("up{job='a',}", 'up{job="a"}'),
        ('up{job="a", # of ours\n code=~`5\\d`}', 'up{job="a",code=~"5\\\\d"}'),
        ('{__name__="up",job!="a"}', 'up{job!="a"}'),
        ('{"http.requests", "k8s.pod"="a"}', '{"http.requests","k8s.pod"="a"}'),
        ('a:b{x="\\x41\\u00e9\\101\\n\\""}', 'a:b{x="AéA\\n\\""}'),
    ],
)
def test_a_selector_is_written_back_as_it_is_meant(text: str, same: str) -> None:
    selector = parse_selector(text)

    assert str(selector) == same
    assert parse_selector(same) == selector


@pytest.mark.parametrize(
    "text",
    ["", "{}", "up[5m]", "up offset 5m", "up{job}", 'up{job="a"', 'up{job=="a"}', "up down",
     'up{__name__="down"}', 'up{"down"}', "sum(up)", "1 + up", 'up{a="b" c="d"}', "u" * 4001],
)  # fmt: skip
def test_anything_but_a_selector_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_selector(text)
