"""Looks in MLflow, read back from its store."""

import math

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.integrations.names import numbers
from tests.integrations.absent import told_without
from tests.integrations.looks import BEGINS, ENDS, look, reading

pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # its own: files as a store are going away


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(before)


def test_looks_are_metrics_and_alarms_tags(client):
    import mlflow

    from sigmascope.integrations.mlflow import MLflow

    with mlflow.start_run() as run:
        sink = MLflow()
    sink.write(BEGINS)  # to that run, also when another is active
    sink.write(ENDS)
    sink.close()
    found = client.get_run(run.info.run_id).data
    assert len(found.metrics) == len(numbers(BEGINS))
    assert found.metrics["gradient norm/blocks.3.linear"] == 0.25
    assert found.metrics["gradient norm/blocks.3.linear..23.2"] == 0.5
    assert found.metrics["loss/.loss"] == 2.5
    assert found.metrics["loss/loss"] == 7.0
    assert found.metrics["spectral norm - matrix/a"] == 5.0
    assert math.isinf(found.metrics["gradient norm/.model"])
    told = client.get_metric_history(run.info.run_id, "alarm/rank-collapse/blocks.3")
    assert [(m.step, m.value) for m in told] == [(3, 1.0), (9, 0.0)]
    assert found.tags["alarm/rank-collapse/blocks.3"].startswith("step 9: rank-collapse-over at")


def test_names_of_other_layers_stay_other_names_that_mlflow_takes(client):
    from sigmascope.integrations.mlflow import MLflow

    sites = ["(loss)", "loss", "a#2", "a.2", "a/b", "a//b", "a:b", "a b", "größe", "(a)b", "a,b"]
    run = client.create_run("0").info.run_id
    sink = MLflow(run)
    readings = tuple(reading(s, "gradient norm", float(i)) for i, s in enumerate(sites))
    sink.write(look(1, readings=readings))
    assert sorted(client.get_run(run).data.metrics.values()) == [float(i) for i in range(11)]


def test_more_metrics_than_one_call_takes_are_logged(client):
    from sigmascope.integrations.mlflow import MLflow

    run = client.create_run("0").info.run_id
    many = tuple(reading(f"layer.{i}", "gradient norm", 1.0) for i in range(1001))
    MLflow(run).write(look(1, readings=many))
    assert len(client.get_run(run).data.metrics) == 1001


def test_without_a_run_it_says_how_to_make_one(client):
    from sigmascope.integrations.mlflow import MLflow

    with pytest.raises(Refusal, match=r"mlflow\.start_run"):
        MLflow()


def test_without_mlflow_it_says_how_to_get_it():
    assert "pip install 'sigmascope[mlflow]'" in told_without("mlflow", "mlflow")
