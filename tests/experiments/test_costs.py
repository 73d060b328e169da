"""Figures at the size of their papers: declared, real networks, told what they cost, resumable."""

import json
from dataclasses import replace

import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope_experiments import FIGURES, Claim, costs, reproduce
from sigmascope_experiments.costs import cost_of, steps_of
from sigmascope_experiments.figures import Figure

NAMED = {f.name: f for f in FIGURES}
CPU = torch.device("cpu")
COUNTS = {"samples": 4, "test": 4, "epochs": 1, "batch": 2, "seeds": 1}  # two steps
IMAGE_FIGURES = {"fig5": "vgg19", "fig7": "vgg19", "fig10": "vgg19", "fig13": "resnet50"}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.name)
def test_every_figure_states_its_papers_size_and_has_it_where_it_is_larger(figure):
    assert figure.stated.endswith(".")
    if figure.full is None:
        assert any(
            words in figure.stated
            for words in ("the same here", "No figure of the paper", "no size", "no experiments")
        )
    else:
        larger = sum(map(steps_of, figure.tasks(figure.full)))
        assert figure.full != figure.usual
        if "samples" in figure.usual and "epochs" in figure.usual:
            one, ours = figure.tasks(figure.full)[0], figure.tasks(figure.usual)[0]
            assert one["samples"] in (50_000, 60_000)
            assert larger > 1000 * len(figure.tasks(figure.full))
            assert steps_of(one) > steps_of({"batch": 64, **ours})


@pytest.mark.parametrize(("name", "network"), IMAGE_FIGURES.items())
def test_image_networks_are_those_of_the_paper(name, network):
    kinds = NAMED[f"daneshmand2020/{name}"].full["kinds"]
    assert {options["network"].partition("?")[0] for options in kinds.values()} == {network}


def test_what_only_moves_counts_leaves_networks_and_rates_as_they_are():
    for figure in FIGURES:
        for task in figure.tasks(figure.full)[:1] if figure.full else ():
            short = costs._short(task)
            changed = {k for k in task if short[k] != task[k]}
            assert changed <= {"steps", "samples", "epochs", "test"}
            assert steps_of(short) == 6


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("fig5", "&width=8"),
        *(pytest.param(n, "", marks=pytest.mark.slow) for n in ("fig5", "fig10", "fig13")),
    ],
)
def test_a_row_of_the_papers_network_runs_from_end_to_end(name, size, tmp_path, monkeypatch):
    figure = NAMED[f"daneshmand2020/{name}"]
    monkeypatch.setattr("sigmascope_experiments.training._images", images)
    kind, options = next(iter(figure.full["kinds"].items()))
    options = {**options, "network": options["network"] + size}
    small = {**figure.full, **COUNTS, "kinds": {kind: options}, "rates": [0.01]}
    cut = replace(figure, full=small, claims=claims)
    told = []
    (row,) = reproduce(cut, tmp_path, full=True, tell=told.append).rows
    assert len(told) == 1
    assert row["task"]["network"].startswith(IMAGE_FIGURES[name])
    assert row["versions"]["device"] == "cpu"
    assert row["curves"][0]["loss"] > 0
    assert 1 <= row["start"]["matrix rank"] <= 4


def images(name, count, folder):
    """Numbers of the shape of CIFAR-10, so that no data need to be there."""
    g = torch.Generator().manual_seed(len(name))
    return torch.rand(count, 3, 32, 32, generator=g), torch.arange(count) % 10


def trains(task, folder, *, device):
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps_of(task)):
        CLOCK[0] += task["width"]
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    CALLS.append(task)
    if task["seed"] in FAILS and steps_of(task) > 6:
        raise KeyboardInterrupt
    return {"width": task["width"]}


CLOCK, CALLS, FAILS = [0.0], [], set()


def tasks(config):
    return [
        {"width": w, "seed": seed, "steps": config["steps"]}
        for w in config["widths"]
        for seed in range(config["seeds"])
    ]


def claims(rows, config):
    yield Claim("there are rows", f"{len(rows)}", bool(rows))


def figure(widths=(2, 5), seeds=2, steps=100):
    full = {"widths": list(widths), "seeds": seeds, "steps": steps}
    return Figure(
        "test/trains", "Trains.", 1, {**full, "steps": 3}, {**full, "steps": 1}, tasks, trains,
        lambda rows, canvas: canvas.add_subplot(), claims, "100 steps.", full, True,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    CLOCK[0] = 0.0
    CALLS.clear()
    FAILS.clear()
    monkeypatch.setattr(costs.time, "monotonic", lambda: CLOCK[0])


def test_the_cost_is_that_of_the_steps_of_each_kind():
    found = cost_of(tasks(figure().full), lambda t: trains(t, None, device=CPU), CPU, "cpu")
    assert found.steps == (100,) * 4
    assert found.seconds == pytest.approx((200.0, 200.0, 500.0, 500.0))
    assert str(found).startswith("4 rows of about 3.33min to 8.33min each on cpu: 23.3min, one")
    assert "400 steps of training (from 6 steps of a row of each kind)" in str(found)


def test_after_a_while_kinds_are_taken_to_be_as_those_that_were_timed(monkeypatch):
    monkeypatch.setattr(costs, "PATIENCE", 11.0)
    found = cost_of(tasks(figure().full), lambda t: trains(t, None, device=CPU), CPU, "cpu")
    assert found.seconds == pytest.approx((200.0,) * 4)
    assert "a row of 1 of 2 kinds" in str(found)


def test_what_lies_between_two_epochs_is_counted_as_often_as_there_are_epochs():
    def row(task):
        net = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        CLOCK[0] += 7  # data are read
        for _ in range(task["epochs"]):
            for _ in range(-(-task["samples"] // task["batch"])):
                CLOCK[0] += 1
                optimizer.step()
            CLOCK[0] += 4  # it is measured
        return {"of": net}

    task = {"epochs": 75, "samples": 640, "batch": 64, "seed": 0}
    found = cost_of([task], row, CPU, "cpu")
    assert found.seconds == pytest.approx((7 + 75 * 14,))


def test_it_is_said_before_the_first_row_and_for_the_papers_size_alone(tmp_path):
    told = []
    reproduce(figure(), tmp_path / "usual", tell=told.append)
    assert told == []
    CALLS.clear()
    reproduce(figure(), tmp_path / "full", full=True, tell=lambda w: told.append(len(CALLS)))
    assert told == [2]  # the rows that were timed, one of each kind
    assert [steps_of(task) for task in CALLS] == [6, 6, 100, 100, 100, 100]
    reproduce(figure(), tmp_path / "full", full=True, tell=told.append)
    assert told == [2]  # nothing is left to compute


def test_a_run_that_is_killed_in_a_row_loses_that_row_alone(tmp_path):
    FAILS.add(1)
    with pytest.raises(KeyboardInterrupt):
        reproduce(figure(), tmp_path, full=True)
    assert [t["seed"] for t in CALLS] == [0, 1]
    FAILS.clear()
    CALLS.clear()
    assert len(reproduce(figure(), tmp_path, full=True).rows) == 4
    assert [(t["width"], t["seed"]) for t in CALLS] == [(2, 1), (5, 0), (5, 1)]


def test_rows_of_two_devices_share_a_file_and_say_where_they_were_computed(tmp_path):
    FAILS.add(1)
    with pytest.raises(KeyboardInterrupt):
        reproduce(figure(), tmp_path, full=True, device="cpu")
    FAILS.clear()
    reproduce(figure(), tmp_path, full=True, device="meta")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()[1:]]
    assert [row["versions"]["device"] for row in rows] == ["cpu", "meta", "meta", "meta"]


def test_what_cannot_be_elsewhere_is_computed_on_the_cpu(tmp_path):
    with_no_device = replace(
        figure(), on_device=False, row=lambda task, folder: trains(task, folder, device=None)
    )
    (first, *_) = reproduce(with_no_device, tmp_path, device="meta").rows
    assert first["versions"]["device"] == "cpu"


def test_two_sizes_at_once_are_refused(tmp_path):
    with pytest.raises(Refusal, match="two sizes, got both"):
        reproduce(figure(), tmp_path, quick=True, full=True)


def test_a_figure_of_the_papers_size_is_computed_as_usual(tmp_path):
    same = replace(figure(), full=None)
    assert reproduce(same, tmp_path, full=True).rows == reproduce(same, tmp_path).rows
