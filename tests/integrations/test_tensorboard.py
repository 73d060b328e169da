"""Looks in TensorBoard, read back from its files."""

import math

import pytest

from sigmascope.integrations.names import numbers
from tests.integrations.absent import told_without
from tests.integrations.looks import BEGINS, ENDS, SPECTRA, look, reading

pytest.importorskip("tensorboard")


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    return found


def test_what_is_written_is_read_back_as_scalars_histograms_and_text(tmp_path):
    from sigmascope.integrations.tensorboard import TensorBoard

    sink = TensorBoard(tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    sink.write(BEGINS)
    assert len(read(sink.folder).Tags()["scalars"]) == len(numbers(BEGINS))  # before it is closed
    sink.write(ENDS)
    sink.close()
    found = read(sink.folder)
    for name, value in numbers(BEGINS).items():
        told = [(e.step, e.value) for e in found.Scalars(name)]
        assert told == [(3, value), (9, 0.0 if name.startswith("alarm/") else value)]
    (first, _) = found.Histograms("singular values - matrix/a")
    assert first.histogram_value.num == len(SPECTRA[0].spectrum.sigma)
    assert first.histogram_value.max == 7.0
    texts = {t: found.Tensors(t)[0].tensor_proto.string_val[0] for t in found.Tags()["tensors"]}
    assert texts["alarm/rank-collapse/blocks.3/says/text_summary"] == (
        b"rank-collapse at blocks.3. Rest."
    )
    assert texts["left out/a/text_summary"] == b"ntk: the budget is spent"


def test_a_restart_takes_the_place_of_what_it_writes_again(tmp_path):
    from sigmascope.integrations.tensorboard import TensorBoard

    for steps, value in (((1, 2, 3, 4), 1.0), ((3, 4, 5), 2.0)):
        sink = TensorBoard(tmp_path)
        for step in steps:
            sink.write(look(step, readings=(reading("(loss)", "loss", value),)))
        sink.close()
    found = [(e.step, e.value) for e in read(tmp_path).Scalars("loss/(loss)")]
    assert found == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]


def test_what_is_infinite_stays_so(tmp_path):
    from sigmascope.integrations.tensorboard import TensorBoard

    sink = TensorBoard(tmp_path)
    sink.write(look(1))
    sink.close()
    assert read(tmp_path).Scalars("gradient norm/(model)")[0].value == math.inf


def test_without_tensorboard_it_says_how_to_get_it():
    told = told_without("tensorboard", "tensorboard", "torch.utils.tensorboard.writer")
    assert "pip install 'sigmascope[tensorboard]'" in told
    assert "tables.CSV" in told
