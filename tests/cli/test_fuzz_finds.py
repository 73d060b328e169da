"""What attacks on the command line found, each by its kind."""

from pathlib import Path

import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=(12, 6)).astype("f4")
CLASSES = np.arange(12) % 3


@pytest.fixture
def kept(sigmascope):
    words = ("profile", "mine.py:build", "--data", "mine.py:batch", "--views", "weights")
    assert sigmascope(*words, "--run", "kept.run")[0] == 0
    return sigmascope


QUOTES = {
    "log.csv": ("step,time,loss\n1,0.5,2.3\n", ("export", "kept.run", "--to", "csv", "--out")),
    "log.json": ('[{"step": 1, "loss": 2}]\n', ("export", "kept.run", "--to", "json", "--out")),
    "lines.json": (
        '[\n{"step": 1, "time": "2"}\n]',
        ("export", "kept.run", "--to", "json", "--out"),
    ),
    "notes.md": ("the words sigmascope export", ("export", "kept.run", "--to", "parquet", "--out")),
    "todo.json": ("[]\n", ("theorems-json",)),
    "paper.json": ('{"r": [{"schema": "sigmascope/profile/3"}]}', ("theorems-json",)),
    "todo.txt": ("the sigmascope weights", ("compress", "mine.py:build", "--save")),
    "page.html": (
        "<!doctype html><title>x · sigmascope</title>",
        ("landscape", "mine.py:build", "--html"),
    ),
    "own.svg": ("<svg><desc>sigmascope</desc></svg>", ("bottleneck", "mine.py:build", "--picture")),
}


@pytest.mark.parametrize("name", QUOTES)
def test_a_file_that_only_speaks_of_us_is_not_ours(kept, name):
    content, words = QUOTES[name]
    Path(name).write_text(content)
    if words == ("theorems-json",):
        words = ("predict", "--width", "4", "--depth", "3", "--layers", "20", "--json")
    code, out, err = kept(*words, name)
    assert (code, out) == (2, "")
    assert "no file of this kind that sigmascope wrote" in err
    assert Path(name).read_text() == content


def test_what_we_wrote_is_written_again(kept):
    for to in ("csv", "json", "parquet"):
        for table in ("readings", "checks"):
            for _ in range(2):
                words = ("export", "kept.run", "--to", to, "--table", table)
                assert kept(*words)[0] == 0
    on = ("mine.py:build", "--data", "mine.py:batch")
    for words in (
        ("landscape", *on, "--html", "a.html", "--json", "a.json"),
        ("bottleneck", *on, "--picture", "a.svg"),
        ("remedy", *on, "--apply", "unit-scale", "--save", "a.pt"),
    ):
        for _ in range(2):
            assert kept(*words)[0] == 0


LABELS = {
    "as a sign": CLASSES.astype("i8") % 2 * 2 - 1,
    "negative": CLASSES - 1,
    "far up": CLASSES * 10**12,
    "unsigned": CLASSES.astype("u2"),
    "long unsigned": CLASSES.astype("u8"),
}


@pytest.mark.parametrize("name", LABELS)
def test_any_whole_numbers_are_classes_of_a_sweep(sigmascope, name):
    np.savez("d.npz", x=X, y=LABELS[name])
    words = ("--depths", "2", "--steps", "2", "--width", "4")
    code, _, err = sigmascope("bottleneck", "train", "d.npz", *words)
    assert code == 0, err


REFUSED = {
    "labels that are codes": (CLASSES * 5_000_000, "profile", "number the classes from 0 on"),
    "too long": (CLASSES.astype("u8") + 2**63, "profile", "must fit 63 bits"),
    "complex": (CLASSES * 1j, "bottleneck train", "Targets must be real values"),
    "two a sample": (
        np.stack([CLASSES, CLASSES], 1),
        "bottleneck train",
        "one whole number a sample",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_labels_that_are_no_classes_are_refused_at_once(sigmascope, name):
    labels, command, says = REFUSED[name]
    np.savez("d.npz", x=X, y=labels)
    words = ("d.npz",) if "train" in command else ("mlp?depth=2&width=4", "--data", "d.npz")
    code, out, err = sigmascope(*command.split(), *words)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize("kind", ["u2", "u4", "u8"])
def test_unsigned_targets_are_classes(sigmascope, kind):
    np.savez("d.npz", x=X, y=CLASSES.astype(kind))
    code, _, err = sigmascope("compress", "mine.py:build", "--data", "d.npz", "--tolerance", "0.5")
    assert code == 0, err


def test_a_skip_connection_beyond_telling_is_refused(sigmascope):
    code, _, err = sigmascope("predict", "--width", "4", "--depth", "3", "--gamma", "1e300")
    assert code == 2
    assert "`gamma` must be at most" in err


def test_a_config_of_a_billion_layers_is_refused(sigmascope):
    Path("hf").mkdir()
    config = '{"model_type": "bert", "num_hidden_layers": 1000000000, "hidden_size": 12}'
    Path("hf/config.json").write_text(config)
    code, _, err = sigmascope("profile", "hf")
    assert code == 2
    assert "num_hidden_layers" in err
