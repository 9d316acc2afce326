"""The command `slo goodput`: a benchmark tool's figure beside ours, on files and on folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from base.errors import TokenweirError
from tests.tokenweir.test_slo_judging import run
from tokenweir.slo_goodput import Asked, run_goodput
from tokenweir.slo_history import Wanted

TRACE = Path(__file__).parents[1] / "slo" / "goodput" / "trace.csv"
SLOS = """\
kind: slo
name: chat
objective: 95
eligible: prompt_tokens < 100000
good:
  answered: outcome = 'good'
  first token: ttft_ms <= 500
  long enough: completion_tokens > 3
---
kind: slo
name: other
objective: 95
good: outcome = 'good'
"""


def test_both_figures_are_shown_with_the_words_that_part_them() -> None:
    done = run("goodput", "--mode", "aiperf", "--limits", "ttft:500 tpot:60", "--facts", TRACE)

    assert done.returncode == 0, done.stderr
    assert "the answer has one token, so no TPOT" in done.stdout
    assert "good_request_fraction" in done.stdout
    assert "tokenweir asked: answered: outcome = 'good'" in done.stdout


def test_limits_may_be_those_of_an_slo(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(SLOS)

    done = run(
        "goodput", "--mode", "vllm", "--slo", tmp_path, "--name", "chat", "--facts", TRACE,
        "--json", "--from", "1700158560", "--to", "1700158600",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["limits"] == {"ttft": 500}
    assert report["beyond"] == ["long enough"]
    own = report["own"]
    assert own["good"] + own["bad"] + own["excluded"] == report["requests"]
    assert report["first_start"] > "2023-11-16T18:16:00"
    assert report["last_start"] <= "2023-11-16T18:16:40"


def test_requests_of_a_folder_have_no_token_times_and_etalon_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = (
        "import sys; from tests.tokenweir.test_slo_goodput import make_folder; "
        "from pathlib import Path; make_folder(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", made, str(data)], check=True, timeout=120)

    done = run(
        "goodput", "--mode", "etalon", "--limits", "ttft:100 tbt:50", "--data", data, "--json"
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    # Evenly spaced, 100 ms each: every second token is late, as the first leaves nothing over.
    assert report["tool"]["figures"]["total_deadlines"] == 10 + 10 * 4 * 2
    assert report["tool"]["figures"]["missed_deadlines"] == 10 * 4 * 2
    assert any("evenly spaced" in note for note in report["notes"])


def make_folder(data: Path) -> None:
    import slo.schema
    import store.schema
    from store.open import open_engine
    from tests.slo.made_facts import EPOCH, fact, put

    data.mkdir()
    engine = open_engine(f"chdb://{data}/store")
    store.schema.create(engine)
    slo.schema.create(engine)
    put(
        engine,
        [fact(EPOCH, n, ttft_ms=100.0, duration_ms=500.0, completion_tokens=5) for n in range(10)],
    )
    engine.close()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Asked("genai-perf", limits="ttft:1"), "vllm, aiperf, etalon, distserve"),
        (Asked("vllm"), "say what good is"),
        (Asked("vllm", [TRACE], limits="ttft:1"), "say what good is"),
        (Asked("etalon", limits="ttft:1"), "limit both ttft and tpot"),
        (Asked("distserve", limits="e2el:1"), "limit ttft or tpot"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(asked: Asked, why: str) -> None:
    with pytest.raises(TokenweirError, match=why):
        run_goodput(asked, Wanted([TRACE]))


def test_an_slo_is_named_if_there_are_several_and_must_set_limits(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(SLOS)

    with pytest.raises(TokenweirError, match="one of: chat, other"):
        run_goodput(Asked("vllm", [tmp_path]), Wanted([TRACE]))
    with pytest.raises(TokenweirError, match="sets no fixed limit"):
        run_goodput(Asked("vllm", [tmp_path], "other"), Wanted([TRACE]))


def test_a_row_with_times_that_go_back_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    facts = tmp_path / "facts.csv"
    facts.write_text(
        "start,ttft_ms,duration_ms,completion_tokens,token_times_ms\n"
        '1,10,30,3,10 20 30\n2,10,30,3,10;30;20\n3,10,30,3,some\n4,10,30,3,"[10, 20, 30]"\n'
    )

    done = run(
        "goodput", "--mode", "etalon", "--limits", "ttft:10 tpot:10", "--facts", facts, "--json"
    )

    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["requests"] == 2
    assert report["tool"]["figures"]["tokens_on_time"] == 1
    assert [each["line"] for each in report["input"]["bad_rows_named"]] == [3, 4]
