"""Local Hugging Face folders."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmascope.checkpoints.formats import FORMATS, INDEX, by_index
from sigmascope.checkpoints.locations import read_json
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, listed, told
from sigmascope.sources.callables import lent
from sigmascope.sources.samples import DEEPEST

WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.safetensors.index.json")


def open_folder(path: Path, *, generator: torch.Generator | None) -> tuple[nn.Module, str]:
    """The model of a Hugging Face folder, in eval mode, and where its weights are from.

    Nothing is fetched and no code in the folder is run. A folder that holds a `config.json` and no
    weights gives the architecture with random weights, which the second result says.

    Raises:
        Refusal: If the folder holds no model that transformers knows, or a damaged one.
    """
    transformers = _checked(path)
    with _quiet(transformers), lent(generator):
        try:
            config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
            names = getattr(config, "architectures", None) or []
            kind = getattr(transformers, names[0], None) if names else transformers.AutoModel
            if kind is None:
                raise Refusal(
                    f"`{path}` needs the class `{names[0]}`, which transformers "
                    f"{transformers.__version__} does not have, and code from a folder is not run: "
                    "name a function that builds the model, `file.py:name`."
                )
            if not any(found for pattern in WEIGHTS for found in path.glob(pattern)):
                build = kind.from_config if kind is transformers.AutoModel else kind._from_config
                with torch.device("meta"):
                    sizes = [t.numel() * t.element_size() for t in build(config).parameters()]
                guard.require_room(sum(sizes), f"The model of `{path}`")
                return build(config).eval(), "random: the folder holds a config.json only"
            model, report = kind.from_pretrained(
                path, local_files_only=True, output_loading_info=True
            )
            missing = sorted(report["missing_keys"])
            fresh = f", except {listed(missing)}, which are not in it and random" if missing else ""
            return model, f"from {path.name}{fresh}"
        except Refusal:
            raise
        except Exception as error:  # transformers raises classes of its own, and others' as well
            raise Refusal(f"transformers cannot build `{path}` ({told(error)}).") from error


def open_config(path: Path) -> Any:
    """The configuration of a Hugging Face folder, or of its `config.json`.

    Raises:
        Refusal: If it is none that transformers knows, or a damaged one.
    """
    folder = path if path.is_dir() else path.parent
    transformers = _checked(folder)
    with _quiet(transformers):
        try:
            return transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # transformers raises classes of its own, and others' as well
            raise Refusal(f"transformers cannot read `{path}` ({told(error)}).") from error


def _checked(path: Path) -> Any:
    """Transformers itself, once a folder holds what it may open.

    Raises:
        Refusal: If it does not, or transformers is not there.
    """
    config = path / "config.json"
    if not config.is_file():
        inside = sorted(p.name for p in path.iterdir())
        raise Refusal(
            f"`{path}` is a folder without a config.json, so not a Hugging Face model; it holds "
            f"{listed(inside) if inside else 'nothing'}."
        )
    for entry in path.iterdir():  # transformers opens what it finds there, by name
        if entry.exists() and not entry.is_dir():
            guard.require_file(entry, ())
    content = read_json(str(config))
    for index in path.glob(f"*{INDEX}"):
        by_index(str(index), str(path), FORMATS[-1])
    if "model_type" not in content:
        raise Refusal(
            f"`{config}` has no `model_type`, so transformers cannot tell which model it is."
        )
    for key, value in content.items():
        if "layer" in str(key) and isinstance(value, int) and value > DEEPEST:
            raise Refusal(
                f"`{config}` asks for {value} layers (`{key}`), and at most {DEEPEST} are built: "
                "is it damaged?"
            )
    try:
        import transformers
    except ImportError as missing:
        raise Refusal(
            f"`{path}` is a Hugging Face folder, which needs transformers: pip install "
            "'sigmascope[hf]'. Without it, name a function that builds the model: `file.py:name`."
        ) from missing
    return transformers


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bars and no advice from transformers while the block runs."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
