"""What the import of an integration says where its package is missing."""

import sys
from importlib import import_module
from unittest.mock import patch

import pytest


def told_without(integration, *packages):
    name = f"sigmascope.integrations.{integration}"
    absent = [m for m in sys.modules if m.partition(".")[0] in packages]
    with patch.dict(sys.modules, dict.fromkeys([*packages, *absent])):
        sys.modules.pop(name, None)
        with pytest.raises(ImportError) as error:
            import_module(name)
    return str(error.value)
