import json
from datetime import timedelta
from pathlib import Path

import pytest

from base.errors import ConfigError
from slo.documents import Loaded, load, read
from slo.slices import make_slices
from slo.tiers import derive

EXAMPLES = Path(__file__).parents[2] / "examples" / "slo"


def write(folder: Path, text: str, name: str = "slos.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read_text(folder: Path, text: str) -> Loaded:
    return read([write(folder, text)])


SHORT = """\
kind: slo
name: chat-ttft
objective: 95
"""


def test_three_lines_are_an_slo(tmp_path: Path) -> None:
    (slo,) = load([write(tmp_path, SHORT)])

    assert (slo.name, slo.objective, slo.window) == ("chat-ttft", 0.95, timedelta(days=30))
    assert [clause.name for clause in slo.good] == ["outcome = 'good'"]
    assert slo.eligible is None
    assert slo.group_by == ()
    assert slo.tiers == derive(0.95, timedelta(days=30))


def test_slices_bring_tiers_of_whole_slices_that_few_bad_ones_fire(tmp_path: Path) -> None:
    (slo,) = load([write(tmp_path, SHORT + "slices: {length: 10m, good: 99.9}\n")])
    (classic,) = load([write(tmp_path, SHORT.replace("95", "99") + CLASSIC_SLICES)])

    assert slo.slices == make_slices(timedelta(minutes=10), 99.9)
    assert slo.tiers == derive(0.95, timedelta(days=30), 3, timedelta(minutes=10))
    assert [(tier.name, tier.long, tier.short) for tier in slo.tiers[:2]] == [
        ("outage", timedelta(minutes=30), timedelta(minutes=10)),
        ("fast", timedelta(hours=1), timedelta(minutes=10)),
    ]
    assert {tier.min_bad for tier in slo.tiers} == {3}
    assert [tier.name for tier in classic.tiers] == ["fast", "slow", "drift", "trickle"]
    assert {tier.min_bad for tier in classic.tiers} == {2}
    # At an hour `outage` would look at the windows of `fast`, which fires first.
    hourly = derive(0.95, timedelta(days=30), 3, timedelta(hours=1))
    assert [tier.name for tier in hourly] == ["fast", "slow", "drift", "trickle"]


CLASSIC_SLICES = "slices: {length: 1h, good: 100}\ntiers: classic\nmin_bad: 2\n"


def test_a_file_holds_several_documents_and_a_folder_several_files(tmp_path: Path) -> None:
    write(tmp_path, SHORT + "---\n" + SHORT.replace("chat-ttft", "b"), "one.yaml")
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper", SHORT.replace("chat-ttft", "c"), "two.yml")
    write(tmp_path, "not read", "notes.txt")

    assert sorted(slo.name for slo in load([tmp_path])) == ["b", "c", "chat-ttft"]


CUT_BY_A_TIER = """\
objective: 90
slices: {length: 5m, good: 99}
tiers:
  - {name: x, factor: 2, long: 1h, short: 2m}"""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("objective: 101", "slo 'chat-ttft' line 3: objective 101 is outside (0, 100)"),
        ("objective: 100", "a budget of zero cannot be kept, use 99.99 or less"),
        ("objective: 0", "objective 0 is outside (0, 100)"),
        ("objective: 99.99999999999", "is too near to 0 or 100 to be counted"),
        ("objective: 0.00000000001", "is too near to 0 or 100 to be counted"),
        ('objective: 95\ndescription: "\\ud83d"', "line 4: '\\ud83d' is not text"),
        ("objective: high", "objective 'high' is not a number"),
        ("objective: true", "objective True is not a number"),
        ("objective: 95\nwindow: 1 month", "line 4: window: duration '1 month' is not like"),
        ("objective: 95\nwindow: 10s", "line 4: window must be between 1m and 366d"),
        ("objective: 95\ngroup_by: [tenant, colour]", "line 4: group_by 'colour' is not one of"),
        ("objective: 95\ngroup_by: [tenant, tenant]", "names 'tenant' twice"),
        ("objective: 95\ngroup_by: tenant", "group_by is not a list"),
        ("objective: 95\ngood: ttft <= 2", "line 4: good: 'ttft' is not a column"),
        ("objective: 95\ngood: {a: sleep(3) = 0}", "good.a: 'sleep(3)' is not allowed"),
        ("objective: 95\neligible: 5", "line 4: eligible is not an expression"),
        ("objective: 95\ncolour: red", "line 4: unknown field 'colour'"),
        ("objective: 95\nmin_bad: 0", "line 4: min_bad 0 is not a whole number from 1"),
        ("objective: 95\nobjective: 96", "line 4: 'objective' is written twice"),
        ("objective: 95\nlabels: [a]", "line 4: labels is not a mapping"),
        ("window: 7d", "objective is missing: write a percentage such as 99.5"),
        (
            "objective: 90\ntiers:\n  - {name: x, factor: 14.4, long: 1h, short: 5m}",
            "line 5: tier 'x' can never fire: a total outage burns at 10",
        ),
        (
            "objective: 90\ntiers:\n  - {name: x, factor: 2, long: 5m, short: 1h}",
            "needs short < long <= window",
        ),
        (
            "objective: 90\ntiers:\n  - {name: x, factor: 2, long: 1h, short: 5m, severity: sms}",
            "severity 'sms' is neither page nor ticket",
        ),
        ("objective: 90\ntiers: [fast]", "a tier is a mapping"),
        ("objective: 90\ntiers:\n  - {name: x, long: 1h, short: 5m}", "factor must be a number"),
        ("objective: 90\nslices: 1m", "line 4: slices is not a mapping of fields"),
        ("objective: 90\nslices: {length: 1m}", "line 4: good is missing: the percentage"),
        ("objective: 90\nslices: {good: 99}", "line 4: length is missing"),
        (
            "objective: 90\nslices: {length: 7m, good: 99}",
            "line 4: slices: slices of 7m do not fit",
        ),
        (
            "objective: 90\nslices: {length: 1m, good: 0}",
            "a percentage above 0, up to 100, not at 0",
        ),
        ("objective: 90\nslices: {length: 1m, good: 99, of: 1}", "line 4: unknown field 'of'"),
        (
            "objective: 90\nslices: {length: 5m, good: 99}\nwindow: 12m",
            "line 5: window 12m is not whole slices of 5m: write 15m",
        ),
        (
            CUT_BY_A_TIER,
            "line 6: tier 'x': short 2m is not whole slices of 5m: write 5m",
        ),
        ("objective: [", "not YAML"),
        ("objective: !!python/object/apply:os.system ['true']", "the tag"),
        ("objective: 95\n<<: {a: 1}", "a key must be plain text"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_cure(tmp_path: Path, line: str, says: str) -> None:
    found = read_text(tmp_path, f"kind: slo\nname: chat-ttft\n{line}\n")

    assert found.slos == ()
    assert any(says in problem for problem in found.problems), found.problems
    assert all(problem.startswith(("slos.yaml", str(tmp_path))) for problem in found.problems)


@pytest.mark.parametrize("name", ["Chat", "a b", "-a", "a_b", "x" * 65, "12"])
def test_names_are_what_urls_and_labels_can_hold(tmp_path: Path, name: str) -> None:
    found = read_text(tmp_path, f"kind: slo\nname: {name}\nobjective: 95\n")

    assert any("name" in problem for problem in found.problems)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "kind: slo\nname: A\nobjective: 101\n---\nkind: pod\n")

    with pytest.raises(ConfigError) as raised:
        load([path, tmp_path / "nowhere.yaml"])

    assert len(str(raised.value).splitlines()) == 4


def test_a_name_belongs_to_one_document(tmp_path: Path) -> None:
    found = read_text(tmp_path, SHORT + "---\n" + SHORT)

    assert "the name is taken by slos.yaml line 1: rename one" in found.problems[0]


def test_a_definition_that_passes_failed_requests_is_doubted(tmp_path: Path) -> None:
    found = read_text(tmp_path, SHORT + "good: ttft_ms <= 2000\n")

    assert "a failed request that meets good counts as good" in found.warnings[0]
    assert read_text(tmp_path, SHORT).warnings == ()


def test_a_tier_below_one_is_doubted(tmp_path: Path) -> None:
    tier = "tiers:\n  - {name: x, factor: 0.9, long: 1h, short: 5m}\n"

    assert "alerts while the objective is met" in read_text(tmp_path, SHORT + tier).warnings[0]


def test_written_tiers_replace_the_derived_ones(tmp_path: Path) -> None:
    tiers = """\
min_bad: 8
tiers:
  - {name: fast, severity: page, factor: 6, long: 60s, short: 20s}
  - {name: slow, severity: ticket, factor: 3, long: 10m, short: 1m, min_bad: 20}
"""
    (slo,) = read_text(tmp_path, SHORT + tiers).slos

    assert [(tier.name, tier.severity, tier.min_bad) for tier in slo.tiers] == [
        ("fast", "page", 8),
        ("slow", "ticket", 20),
    ]


def test_named_clauses_name_the_reasons(tmp_path: Path) -> None:
    (slo,) = read_text(
        tmp_path, SHORT + "good: {answered: outcome = 'good', quick: ttft_ms <= 800}\n"
    ).slos

    assert [clause.name for clause in slo.good] == ["answered", "quick"]


def test_the_definition_does_not_depend_on_spelling(tmp_path: Path) -> None:
    good = "good: outcome = 'good' and ttft_ms <= 2000\n"
    (one,) = read_text(tmp_path, SHORT + good).slos
    (other,) = read_text(
        tmp_path, SHORT + "good: (outcome='good') AND ttft_ms<=2000 # same\nwindow: 7d\n"
    ).slos

    assert one.definition == other.definition
    assert len(one.definition) == 16


def test_the_examples_load_without_a_doubt() -> None:
    found = read([EXAMPLES])

    assert found.problems == ()
    assert found.warnings == ()
    assert {"availability", "chat-ttft", "chat-tpot", "chat-e2e", "demo-chat"} <= {
        slo.name for slo in found.slos
    }


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    assert "cannot be read" in read([path]).problems[0]


def test_rare_characters_may_be_written_as_json_escapes_them(tmp_path: Path) -> None:
    eligible = {"eligible": "tenant = '😀'"}
    text = json.dumps({"kind": "slo", "name": "x", "objective": 95} | eligible)

    (slo,) = load([write(tmp_path, text, "slo.json")])

    assert slo.definition
    assert "😀" in str(slo.eligible)


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]

    assert "more than 200000 values" in read_text(tmp_path, "\n".join(lines)).problems[0]


CALENDARS = [
    ("calendar: month", [("month", "UTC")]),
    ("calendar: {period: week, zone: Europe/Berlin}", [("week", "Europe/Berlin")]),
    ("calendar: [quarter, {period: day, zone: Asia/Tokyo}]",
     [("quarter", "UTC"), ("day", "Asia/Tokyo")]),
    ("window: 7d", []),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), CALENDARS)
def test_calendar_periods_are_judged_beside_the_rolling_window(
    tmp_path: Path, line: str, expected: list[tuple[str, str]]
) -> None:
    (slo,) = load([write(tmp_path, f"kind: slo\nname: a\nobjective: 99\n{line}\n")])

    assert [(each.period.value, each.zone) for each in slo.calendars] == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("calendar: fortnight", "line 4: calendar: period 'fortnight' is not one of day, week"),
        ("calendar: {period: month, zone: Mars}", "zone 'Mars' is not an IANA time zone"),
        ("calendar: {zone: UTC}", "period is missing"),
        ("calendar: [month, month]", "month in UTC is written twice"),
        ("calendar: {period: month, tz: UTC}", "unknown field 'tz'"),
    ],
)
def test_a_wrong_calendar_names_its_line(tmp_path: Path, line: str, message: str) -> None:
    found = read([write(tmp_path, f"kind: slo\nname: a\nobjective: 99\n{line}\n")])

    assert any(message in problem for problem in found.problems)
    assert found.slos == ()
