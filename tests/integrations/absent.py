"""What the import of an integration says where its package is missing."""

import subprocess
import sys


def told_without(integration, *packages):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
        f"try:\n    import sigmascope.integrations.{integration}\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout
