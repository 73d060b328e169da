import json

import pytest

from sigmascope.cli.outputs import finish, refusing
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Check, Verdict
from sigmascope.theory.presentation import Checks

CHECK = Check("t", "s", "a ≤ b", "fc", None, None, "at most", (), Verdict.INAPPLICABLE)
RESULT = Checks((CHECK,))


def test_a_result_is_printed_and_ends_in_0(capsys):
    assert finish(RESULT, json=None) == 0
    assert "t: 1 inapplicable" in capsys.readouterr().out


def test_json_goes_to_a_file_beside_the_text_or_to_the_output_in_its_place(tmp_path, capsys):
    file = tmp_path / "out.json"
    finish(RESULT, json=str(file))
    assert "inapplicable" in capsys.readouterr().out
    finish(RESULT, json="-")
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text())


def test_what_failed_ends_in_1(capsys):
    assert finish(RESULT, json="-", failed=True) == 1


def test_something_else_may_be_printed_in_the_place_of_a_result(capsys):
    finish(Checks(()), json=None, shown=CHECK)
    assert "t: 1 inapplicable" in capsys.readouterr().out


def test_errors_of_one_kind_become_refusals():
    with pytest.raises(Refusal, match="too small"), refusing():
        raise ValueError("too small")
    with pytest.raises(Refusal, match="not installed"), refusing(ImportError):
        raise ImportError("not installed")
    with pytest.raises(KeyError), refusing():
        raise KeyError("x")
