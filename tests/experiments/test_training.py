import pytest
import torch

from sigmascope_experiments.daneshmand2020.comparisons import best, compared
from sigmascope_experiments.training import split, trained

TASK = {"data": "digits", "samples": 160, "epochs": 3, "batch": 32, "rate": 0.1, "seed": 0}


def test_a_shallow_network_learns_and_a_deep_one_does_not():
    shallow = trained({**TASK, "network": "mlp?depth=2&width=64", "epochs": 12}, None)
    deep = trained({**TASK, "network": "mlp?depth=20&width=64"}, None)
    assert shallow["final"]["accuracy"] > 0.8
    assert deep["final"]["accuracy"] < 0.2
    assert deep["start"]["participation ratio"] < 1.001
    assert deep["start"]["mean |cos|"] > 0.999
    assert len(shallow["curves"]) == 12


def test_the_same_task_gives_the_same_row():
    task = {**TASK, "network": "mlp?depth=3&width=16", "follow": True}
    first, again = trained(task, None), trained(task, None)
    assert first == again
    assert first != trained({**task, "seed": 1}, None)
    assert "participation ratio" in first["curves"][0]


def test_pretraining_raises_what_it_starts_from():
    base = {**TASK, "network": "mlp?depth=12&width=32&init=he", "epochs": 1}
    plain = trained(base, None)["start"]["participation ratio"]
    rescaled = trained({**base, "treatment": "rescale"}, None)["start"]["participation ratio"]
    raised = trained({**base, "treatment": "pretrain-10"}, None)["start"]["participation ratio"]
    assert rescaled == pytest.approx(plain, rel=0.1)
    assert raised > 3 * plain


def test_inputs_are_standardised_by_the_training_part():
    data = split("digits", 200, None)
    assert torch.allclose(data.x.mean(0), torch.zeros(1), atol=1e-5)
    assert float(data.x.std()) == pytest.approx(1, abs=0.2)
    assert (len(data.x), len(data.x_test)) == (200, 50)


def test_a_diverging_run_stops_and_is_kept():
    row = trained({**TASK, "network": "mlp?depth=3&width=64&init=he", "rate": 1e6}, None)
    assert len(row["curves"]) < 3 or row["final"]["accuracy"] < 0.3


def fake(kind, accuracy, ratio, rate=0.1, seed=0):
    return {
        "task": {"kind": kind, "rate": rate, "seed": seed},
        "start": {"participation ratio": ratio},
        "final": {"accuracy": accuracy},
    }


def test_claims_compare_each_kind_at_its_best_rate_and_can_fail():
    rows = [
        fake(kind, accuracy + 0.01 * seed, ratio, rate, seed)
        for kind, accuracy, ratio, rate in (
            ("a", 0.19, 1.0, 0.1), ("a", 0.89, 1.0, 0.3), ("b", 0.49, 9.0, 0.1),
            ("b", 0.1, 9.0, 0.3),
        )
        for seed in range(3)
    ]  # fmt: skip
    assert best(rows, "a") == (0.3, pytest.approx(0.9))
    said = {c.says: c.holds for c in compared(
        rows, {}, order=[("a", "b"), ("b", "a")], stuck=["b"], collapsed=["a", "b"],
        pretrained=["a", "b"],
    )}  # fmt: skip
    assert said == {
        "a trains at least as well as b": True,
        "b trains at least as well as a": False,
        "b does not train": False,
        "a starts from collapsed representations": True,
        "b starts from collapsed representations": False,
        "a starts above 5": False,
        "b starts above 5": True,
    }
