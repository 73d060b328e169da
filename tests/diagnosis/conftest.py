import pytest


@pytest.fixture(scope="module")
def digits():
    from sigmascope import sources  # not before shapes are checked, as a path that is named would

    return sources.open_data("digits", samples=128)
