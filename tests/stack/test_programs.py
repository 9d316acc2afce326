"""Every program of the stack starts by its name."""

import runpy
import sys

import pytest

PROGRAMS = ("up", "gateway", "router", "engine", "fleet", "registry", "pager", "load", "history")
SENDERS = ("up", "gateway", "router", "engine", "fleet", "history")


def help_of(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> str:
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"stack.{program}", run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_called_by_the_name_of_its_folder(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    text = help_of(program, monkeypatch, capsys)

    assert f"python -m stack.{program}" in text
    assert ("--otlp-key-file" in text) == (program in SENDERS)
