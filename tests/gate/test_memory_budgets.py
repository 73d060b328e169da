"""What comes from outside is weighed before any of it is given."""

import pytest

from sigmascope import gate


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("8GB", 8 * 10**9),
        ("512MiB", 512 << 20),
        ("2e9", 2 * 10**9),
        (" 1.5 g ", 15 * 10**8),
        ("7", 7),
    ],
)
def test_sizes_in_words(words, size):
    assert gate.size_of(words) == size


@pytest.mark.parametrize(
    "words", ["", "-1", "nan", "inf", "0", "1e99", "8XB", "1..2", "\x1b[31m", "8G G"]
)
def test_what_is_no_size_is_refused(words):
    with pytest.raises(gate.Refusal, match="must read like `8GB`"):
        gate.size_of(words)


def test_the_user_may_allow_more_and_less(monkeypatch):
    with gate.memory("1MB"):
        with pytest.raises(gate.Refusal, match=r"it needs 9.54 MiB or more .* 1000000 bytes"):
            gate.require_room(10**7, "it")
        with gate.memory("1GB"):
            gate.require_room(10**7, "it")
        with gate.memory(None), pytest.raises(gate.Refusal):
            gate.require_room(10**7, "it")
    monkeypatch.setenv("SIGMASCOPE_MEMORY", "2MB")
    with pytest.raises(gate.Refusal, match="SIGMASCOPE_MEMORY=64GB"):
        gate.require_room(10**7, "it")
    monkeypatch.delenv("SIGMASCOPE_MEMORY")
    gate.require_room(10**7, "it")
    with pytest.raises(gate.Refusal):
        gate.require_room(10**5000, "it")
