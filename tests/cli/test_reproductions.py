from dataclasses import replace

import pytest

from sigmascope_experiments import FIGURES


def test_all_figures_are_listed(sigmascope):
    code, out, err = sigmascope("reproduce")
    assert (code, err) == (0, "")
    for figure in FIGURES:
        assert figure.name in out
    assert out.count("; the paper's size with --full") == sum(f.full is not None for f in FIGURES)


def test_a_figure_is_computed_and_its_claims_are_said(sigmascope, tmp_path):
    code, out, err = sigmascope("reproduce", "daneshmand2020/fig3b", "--quick")
    assert code == 0
    assert "  holds  the batch starts with nearly all of its energy in one direction" in out
    assert err.strip() == "Wrote results/daneshmand2020/fig3b-quick"
    assert (tmp_path / "my models/results/daneshmand2020/fig3b-quick/figure.png").exists()


def test_a_claim_that_fails_ends_in_1(sigmascope, monkeypatch):
    from sigmascope_experiments.daneshmand2020 import collinear

    monkeypatch.setattr(collinear, "NOISE", 3.0)  # no longer nearly collinear
    code, out, _ = sigmascope("reproduce", "daneshmand2020/fig3b", "--quick", "--out", "here")
    assert code == 1
    assert "FAILS" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("daneshmand2020/fig33",), "Did you mean `daneshmand2020/fig3"),
        (("daneshmand2020/fig3b", "--workers", "0"), "Must be >= 1"),
        (
            ("daneshmand2020/fig5", "--full", "--device", "cuda:99"),
            "no device `cuda:99` here; take",
        ),
        (("daneshmand2020/fig5", "--full", "--quick"), "two sizes, got both: take one"),
    ],
)
def test_refusals(sigmascope, words, says):
    code, out, err = sigmascope("reproduce", *words)
    assert (code, out) == (2, "")
    assert says in err


def test_another_size_in_the_same_folder_is_refused(sigmascope):
    sigmascope("reproduce", "daneshmand2020/fig3b", "--quick", "--out", "here")
    code, _, err = sigmascope("reproduce", "daneshmand2020/fig3b", "--out", "here")
    assert code == 2
    assert "is " in err
    assert "name another file" in err


def test_what_is_not_tested_is_said(sigmascope):
    code, out, _ = sigmascope("reproduce", "jacot2023/fig1b", "--quick", "--out", "here")
    assert code == 0
    assert "  holds  no network has a smaller norm than its Jacobian asks for" in out
    assert "  NOT TESTED  the ends agree between depths: 40 steps of training are too few" in out
    assert "  1 of 3 claims tested; this size cannot tell the others" in out


def test_a_figure_that_tests_nothing_ends_in_1(sigmascope, monkeypatch):
    import sigmascope_experiments as experiments
    from sigmascope_experiments.daneshmand2020.collinear import FIG3B
    from sigmascope_experiments.figures import untested

    silent = replace(FIG3B, claims=lambda *_: iter([untested("it falls", "too few")]))
    monkeypatch.setattr(experiments, "FIGURES", (silent,))
    code, out, _ = sigmascope("reproduce", "daneshmand2020/fig3b", "--quick", "--out", "here")
    assert code == 1
    assert "NOT TESTED  it falls: too few" in out


def test_the_cost_of_the_papers_size_is_said_before_its_rows(sigmascope, monkeypatch):
    import sigmascope_experiments as experiments
    from sigmascope_experiments.jacot2023.symmetries import FIG2A

    short = {**FIG2A.full, "width": 8, "depth": 4, "steps": 8, "samples": 300}
    monkeypatch.setattr(experiments, "FIGURES", (replace(FIG2A, full=short),))
    code, out, err = sigmascope("reproduce", "jacot2023/fig2a", "--full")
    assert code == 0
    said, wrote = err.strip().splitlines()
    assert said.startswith("jacot2023/fig2a: 1 row of about ")
    assert "for 8 steps of training (from 6 steps of a row of each kind)" in said
    assert wrote == "Wrote results/jacot2023/fig2a-full"
    assert "At the paper's size. A network of depth 25 and width 200" in out


def test_a_figure_whose_size_is_the_papers_is_computed_as_usual(sigmascope, monkeypatch):
    import sigmascope_experiments as experiments
    from sigmascope_experiments.riedi2022.trajectories import FIG2

    monkeypatch.setattr(experiments, "FIGURES", (replace(FIG2, usual=FIG2.quick),))
    code, _, err = sigmascope("reproduce", "riedi2022/fig2", "--full", "--device", "cpu")
    assert code == 0
    assert "riedi2022/fig2: the usual size is the one to take. A diagonal matrix" in err
    assert err.strip().endswith("Wrote results/riedi2022/fig2")


def test_what_is_computed_on_the_cpu_whatever_was_said_is_told(sigmascope):
    code, _, err = sigmascope("reproduce", "riedi2022/fig2", "--quick", "--device", "cpu:0")
    assert code == 0
    assert "riedi2022/fig2 is computed on cpu: its matrices are small." in err
