import pytest

from sigmascope import sources


@pytest.fixture(scope="module")
def digits():
    return sources.open_data("digits", samples=128)
