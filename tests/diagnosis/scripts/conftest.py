import pytest


@pytest.fixture(scope="session")
def runner():
    """One for all: what is slow to load is loaded once, and not in the fork of every script."""
    from sigmascope.core import products  # not before shapes are checked
    from sigmascope.diagnosis.scripts.running import Runner

    with Runner() as one:
        modules = (*products.VIEWS, *products.FINDINGS, *products.THEOREMS, "scipy.optimize")
        one._loaded.update(dict.fromkeys(modules))
        yield one
