"""`tokenweir slo import | export | schema`, as people run them."""

import json
from pathlib import Path

import yaml
from typer.testing import CliRunner, Result

from base.errors import ConfigError
from slo.documents import read
from tokenweir.cli import app

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "slo"
SLOTH = """\
version: prometheus/v1
service: shop
slos:
  - name: a
    objective: 99.9
    sli:
      events:
        error_query: sum(rate(e[{{.window}}]))
        total_query: sum(rate(t[{{.window}}]))
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["slo", *map(str, arguments)])


def test_import_prints_documents_and_reports_beside_them(tmp_path: Path) -> None:
    (tmp_path / "sloth.yml").write_text(SLOTH)

    done = run("import", tmp_path / "sloth.yml")

    assert done.exit_code == 0
    assert yaml.safe_load(done.stdout)["prometheus"] == {"total": "t", "bad": "e"}
    assert "imported shop-a" in done.stderr
    assert "1 imported, 0 refused, 0 passed over" in done.stderr


def test_import_writes_a_file_for_each_and_ends_with_2_if_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sloth.yml").write_text(
        SLOTH + SLOTH[SLOTH.index("  - name") :].replace("99.9", "0")
    )

    done = run("import", tmp_path / "sloth.yml", "--out", tmp_path / "out")

    assert done.exit_code == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["shop-a.yaml"]
    assert read([tmp_path / "out"]).problems == ()
    assert "sloth.yml line 11: Sloth SLO 'a': objective 0 is outside (0, 100)" in done.stdout


def test_import_does_not_replace_other_documents_unasked(tmp_path: Path) -> None:
    (tmp_path / "sloth.yml").write_text(SLOTH)
    out = tmp_path / "out"
    run("import", tmp_path / "sloth.yml", "--out", out)
    same = run("import", tmp_path / "sloth.yml", "--out", out)
    (out / "shop-a.yaml").write_text("mine")
    kept = run("import", tmp_path / "sloth.yml", "--out", out)

    assert same.exit_code == 0
    assert isinstance(kept.exception, ConfigError)
    assert (out / "shop-a.yaml").read_text() == "mine"
    assert run("import", tmp_path / "sloth.yml", "--out", out, "--overwrite").exit_code == 0
    assert read([out]).problems == ()


def test_export_writes_rules_and_openslo(tmp_path: Path) -> None:
    rules = run("export", EXAMPLES)
    done = run("export", EXAMPLES, "--format", "openslo", "--out", tmp_path / "o.yaml")

    groups = yaml.safe_load(rules.stdout)["groups"]
    assert "SLOBudgetBurn" in {rule.get("alert") for group in groups for rule in group["rules"]}
    assert done.exit_code == 0
    assert len(read([tmp_path / "o.yaml"]).slos) == len(read([EXAMPLES]).slos)


def test_export_says_what_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("kind: slo\nname: a\n")

    for arguments, says in (
        (("export", tmp_path / "wrong.yaml"), "objective is missing"),
        (("export", EXAMPLES, "--format", "xml"), "format 'xml' is not one of prometheus, openslo"),
        (("export", tmp_path / "none"), "no such file"),
    ):
        done = run(*arguments)
        assert isinstance(done.exception, ConfigError)
        assert says in str(done.exception)


def test_export_leaves_cost_out_and_says_so(tmp_path: Path) -> None:
    both = run("export", EXAMPLES)
    alone = run("export", EXAMPLES / "cost.yaml")

    assert "slo 'chat-cost' is not written: prometheus has no word for cost" in both.stderr
    assert isinstance(alone.exception, ConfigError)
    assert "other than those about cost" in str(alone.exception)


def test_export_leaves_out_what_others_cannot_count_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(
        "{kind: slo, name: a, objective: 90, weight: 'coalesce(completion_tokens, 1)'}\n---\n"
        "{kind: slo, name: b, objective: 90}\n---\n"
        "{kind: slo, name: both, objective: 90, composite: {all: [b]}}\n"
    )

    rules = run("export", tmp_path / "slo.yaml")
    openslo = run("export", tmp_path / "slo.yaml", "--format", "openslo")

    assert "slo 'a' is left out: it counts tokens: its tiers are held against" in rules.stderr
    groups = {each["name"] for each in yaml.safe_load(rules.stdout)["groups"]}
    assert groups == {"slo-b", "slo-b-long", "slo-both", "slo-both-long"}
    assert "slo 'both' is left out: it is a composite" in openslo.stderr
    (tmp_path / "back.yaml").write_text(openslo.stdout)
    assert [each.unit for each in read([tmp_path / "back.yaml"]).slos] == ["tokens", "requests"]


def test_backtest_and_plan_say_that_cost_is_not_in_a_history_of_requests(tmp_path: Path) -> None:
    facts = tmp_path / "facts.csv"
    facts.write_text("start,tenant,route,outcome\n1772323200,acme,/v1/chat/completions,good\n")
    files = ("--facts", facts, "--slo", EXAMPLES / "cost.yaml")

    backtest = run("backtest", *files)
    plan = run("plan", *files, "--slo", EXAMPLES / "production.yaml")

    assert isinstance(backtest.exception, ConfigError)
    assert "chat-cost: it is about cost, and GPU-hours are not in a history of requests" in str(
        backtest.exception
    )
    assert "not judged: it is about cost" in plan.stdout
    assert "cost.at_most_usd: added: 0.004" in plan.stdout


def test_lint_knows_documents_about_cost(tmp_path: Path) -> None:
    (tmp_path / "cost.yaml").write_text(
        "kind: slo\nname: a\ncost: {at_most_usd: 1, per: request}\ntiers: []\n"
        "eligible: tenant = 'a' and tenant = 'b'\n"
    )

    done = run("lint", tmp_path)

    assert done.exit_code == 2
    assert "cost.yaml:5" in done.stdout
    assert "[no-tiers]" in done.stdout
    assert "1 SLOs: 1 errors, 1 warnings" in done.stdout


def test_schema_prints_what_is_served_with_the_pages() -> None:
    done = run("schema")

    assert json.loads(done.stdout) == json.loads((ROOT / "docs" / "slo.schema.json").read_text())


def test_import_ends_with_1_if_a_draft_has_work_left(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text("""\
service_name: shop
feature_name: web
slo_name: up
slo_target: 0.99
backend: {class: Datadog, method: good_bad_ratio, measurement: {query_good: a, query_valid: b}}
""")

    done = run("import", tmp_path / "slo.yaml")

    assert done.exit_code == 1
    assert "1 imported (1 as drafts, without an indicator)" in done.stderr
