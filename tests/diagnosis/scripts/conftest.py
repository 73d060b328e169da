import contextlib

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


@pytest.fixture(scope="module")
def one_process(runner):
    """Diagnoses begin no process of their own."""
    from sigmascope.diagnosis.scripts import diagnosing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosing, "Runner", lambda: contextlib.nullcontext(runner))
        yield
