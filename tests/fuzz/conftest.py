import contextlib

import pytest

from tests.fuzz import world
from tests.fuzz.promises import run


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    files = world.build(folder)
    with contextlib.chdir(folder):
        assert run(("profile", "m.py:plain", "--data", "m.py:batch", "--run", "kept.run"))[0] == 0
    return folder, files


@pytest.fixture
def quiet_home(home, monkeypatch, as_users_see_it):
    """The folder as the working directory, with no more memory than a small machine has."""
    folder, _ = home
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))  # matplotlib fills it
    monkeypatch.setenv("SIGMASCOPE_MEMORY", "500MB")
    return folder
