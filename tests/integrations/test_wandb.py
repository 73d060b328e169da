"""Looks in Weights & Biases, offline, read back from the file that would be sent."""

import json
import struct
import time

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.integrations.names import numbers
from tests.integrations.absent import told_without
from tests.integrations.looks import BEGINS, ENDS, look, reading

pytest.importorskip("wandb")
pytestmark = pytest.mark.filterwarnings("ignore")  # its own: sockets and files it leaves open


def records(file, *, block=32768):
    """The records of a run file: LevelDB's log, after a head of seven bytes."""
    content, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if block - at % block < 7:  # the rest of a block holds no head of a record
            at += block - at % block
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        if at + 7 + length > len(content):  # not written yet
            return
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in {1, 4}:  # whole, or the last part
            yield whole
            whole = b""


def found_in(file):
    """What stands in a run file: records as they are read."""
    from wandb.proto import wandb_internal_pb2

    for data in records(file):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        yield record.WhichOneof("record_type"), record


def history(folder):
    """Rows of the run file that lies there, and its axes by group."""
    (file,) = folder.rglob("run-*.wandb")
    end = time.monotonic() + 60
    while "exit" not in (kind for kind, _ in found_in(file)):  # another process writes it
        assert time.monotonic() < end, [kind for kind, _ in found_in(file)]
        time.sleep(0.1)
    rows, axes = [], {}
    for kind, record in found_in(file):
        if kind == "history":
            items = record.history.item
            rows.append({i.key or ".".join(i.nested_key): json.loads(i.value_json) for i in items})
        if kind == "metric":
            axes[record.metric.glob_name or record.metric.name] = record.metric.step_metric
    return rows, axes


@pytest.fixture
def offline(tmp_path, monkeypatch):
    import wandb

    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", dir=tmp_path, settings=wandb.Settings(x_disable_stats=True))
    yield run
    run.finish()


def test_looks_are_rows_with_an_axis_of_their_own(offline, tmp_path):
    from sigmascope.integrations.wandb import WandB

    sink = WandB(offline)
    sink.write(BEGINS)
    sink.write(ENDS)
    sink.close()
    offline.finish()
    rows, axes = history(tmp_path)
    assert [row["optimizer step"] for row in rows] == [3, 9]
    for name, value in numbers(BEGINS).items():
        assert rows[0][name] == value
    assert rows[1]["alarm/rank-collapse/blocks.3"] == 0.0
    assert rows[0]["alarm/rank-collapse/blocks.3/says"] == "rank-collapse at blocks.3."
    assert sum(rows[0]["singular values - matrix/a.values"]) == 8
    assert axes["gradient norm/*"] == axes["alarm/*"] == "optimizer step"


@pytest.mark.parametrize("named", [True, False])
def test_what_training_logs_itself_is_kept(offline, tmp_path, named):
    from sigmascope.integrations.wandb import WandB

    sink = WandB()  # the run in force
    for step in range(1, 8):
        offline.log({"a": step}, step=step) if named else offline.log({"a": step})
        sink.write(look(step, readings=(reading("(loss)", "loss", float(step)),)))
        offline.log({"b": step}, step=step) if named else offline.log({"b": step})
    for step in (5, 6, 7, 8):  # as after a restart
        sink.write(look(step, readings=(reading("(loss)", "loss", 10.0 + step),)))
        offline.log({"c": step})
    offline.finish()
    rows, _ = history(tmp_path)
    for own in "ab":
        assert [row[own] for row in rows if own in row] == [1, 2, 3, 4, 5, 6, 7]
    told = [(row["optimizer step"], row["loss/(loss)"]) for row in rows if "loss/(loss)" in row]
    assert told == [(i, float(i)) for i in range(1, 8)] + [(i, 10.0 + i) for i in (5, 6, 7, 8)]


def test_without_a_run_it_says_how_to_make_one():
    from sigmascope.integrations.wandb import WandB

    with pytest.raises(Refusal, match=r"wandb\.init"):
        WandB()


def test_without_wandb_it_says_how_to_get_it():
    assert "pip install 'sigmascope[wandb]'" in told_without("wandb", "wandb")
