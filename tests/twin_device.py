"""A second device for tests on a machine that has none: `twin_device.cpp`, built and made known.

Only for a process of its own: torch knows one such device in a process, and for good.

python tests/twin_device.py FOLDER     # build it
"""

import sys
from pathlib import Path

import torch
from torch import nn

NAME = "twin"
SOURCE = Path(__file__).with_name("twin_device.cpp")


class Module:
    """What torch asks of the module of a device."""

    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    _is_in_bad_fork = staticmethod(lambda: False)
    get_rng_state = staticmethod(lambda device=0: torch.ops.twin.rng_state())
    manual_seed_all = staticmethod(lambda seed: torch.ops.twin.manual_seed(seed % 2**63))

    @staticmethod
    def get_amp_supported_dtype():
        return [torch.bfloat16, torch.float16, torch.float32]

    @staticmethod
    def set_rng_state(state, device=0):
        torch.ops.twin.set_rng_state(state)


def build(folder: Path) -> None:
    """Compile it into a folder, with whatever compiler there is."""
    from torch.utils import cpp_extension

    folder.mkdir(parents=True, exist_ok=True)
    cpp_extension.load(
        NAME,
        [str(SOURCE)],
        build_directory=str(folder),
        extra_cflags=["-O0"],
        is_python_module=False,
    )


def start(folder: Path) -> None:
    """Make the device known to this process, for good."""
    torch.ops.load_library(folder / f"{NAME}.so")
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, Module)
    torch.utils.generate_methods_for_privateuse1_backend()
    # otherwise `to` makes parameters anew, and those that are tied would be two
    torch.__future__.set_swap_module_params_on_conversion(True)


def there(model: nn.Module) -> nn.Module:
    """The same model, on the device."""
    return model.to(NAME)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
