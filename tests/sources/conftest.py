import numpy as np
import pytest

from tests.sources.idx import write_idx


@pytest.fixture
def fashion(tmp_path):
    """A folder with the two training files of a very small Fashion-MNIST."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, 28, 28), dtype=np.uint8)
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", (np.arange(30) % 10).astype(np.uint8))
    return tmp_path, images
