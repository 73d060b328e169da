"""Data sets known by name."""

import gzip
import hashlib
import os
import tempfile
import urllib.request
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.core.guard import Refusal, told
from sigmascope.sources.files import read_idx
from sigmascope.sources.samples import choose, described, seeded

DATASETS = ("digits", "fashion-mnist", "cifar10", "gaussian")
SAMPLES = 128  # of `gaussian`, which has no end, where nothing is said
DEBIAN = Path("/usr/share/datasets")  # where the package dataset-fashion-mnist puts its files
FASHION_URL = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
# SHA-256 of the uncompressed files: the .gz around them differ between mirrors and distributions.
FASHION_SHA256 = MappingProxyType(
    {
        "train-images-idx3": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    }
)

Sample = tuple[Tensor, Tensor | None, str]


def digits(*, samples: int | None, generator: torch.Generator | None) -> Sample:
    """Handwritten digits of scikit-learn: `[n, 1, 8, 8]`, pixels divided by 16, in `[0, 1]`."""
    # pixels [n, 64] and labels: of its file, for to load them the package takes a second
    package = find_spec("sklearn")
    for folder in (package and package.submodule_search_locations) or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            rows = torch.from_numpy(np.loadtxt(file, delimiter=","))
            pixels, labels = rows[:, :-1], rows[:, -1].long()
            break
    else:
        from sklearn.datasets import load_digits

        content: Any = load_digits()
        pixels, labels = torch.from_numpy(content.data), torch.from_numpy(content.target).long()
    images = (pixels / 16).float().reshape(-1, 1, 8, 8)
    rows = choose(len(labels), labels, samples=samples, generator=generator)
    name = described("digits", len(rows), len(labels), balanced=True, generator=generator)
    return images[rows], labels[rows], name


def gaussian(
    *, shape: tuple[int, ...], samples: int | None, generator: torch.Generator | None
) -> Sample:
    """Independent standard normal numbers: `[n, *shape]`, from seed 0 without a generator."""
    source = generator if generator is not None else torch.Generator().manual_seed(0)
    rows = SAMPLES if samples is None else samples
    size = "x".join(map(str, shape))
    return (
        torch.randn(rows, *shape, generator=source),
        None,
        f"gaussian {size}, {rows} samples ({seeded(generator)})",
    )


def fashion_mnist(
    *,
    split: str,
    folder: Path | None,
    samples: int | None,
    generator: torch.Generator | None,
) -> Sample:
    """Fashion-MNIST (Xiao, Rasul & Vollgraf 2017): `[n, 1, 28, 28]`, pixels divided by 255.

    Raises:
        Refusal: If its files are nowhere to be found and cannot be fetched.
    """
    prefix = "t10k" if split == "test" else "train"
    images = read_idx(_fashion_file(f"{prefix}-images-idx3-ubyte", folder))
    labels = read_idx(_fashion_file(f"{prefix}-labels-idx1-ubyte", folder)).long()
    if len(images) != len(labels):
        raise Refusal(
            f"Fashion-MNIST has {len(images)} images and {len(labels)} labels in `{folder}`."
        )
    rows = choose(len(labels), labels, samples=samples, generator=generator)
    name = described(
        f"fashion-mnist ({split})", len(rows), len(labels), balanced=True, generator=generator
    )
    return images[rows].float().div(255).unsqueeze(1), labels[rows], name


def cifar10(
    *,
    split: str,
    folder: Path | None,
    samples: int | None,
    generator: torch.Generator | None,
) -> Sample:
    """CIFAR-10 (Krizhevsky 2009) from Parquet: `[n, 3, 32, 32]`, pixels divided by 255.

    Only the images that are chosen are decoded.

    Raises:
        Refusal: If its files are nowhere to be found, are damaged, or have other columns.
    """
    places = (
        place
        for home in _folders(folder)
        for place in (home / "cifar10", *([home] if folder is not None else []))
    )
    found = (path for place in places for path in sorted(place.glob(f"{split}-*.parquet")))
    path = next(found, None)
    if path is None:
        home = (
            f"`{folder}`"
            if folder
            else "a folder, and pass that as `--folder`, or name it in the variable SIGMASCOPE_DATA"
        )
        raise Refusal(
            f"CIFAR-10 is not here and is not fetched: put its `{split}-00000-of-00001.parquet` "
            f"(columns `img`, `label`) into `cifar10` in {home}."
        )
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as missing:
        raise Refusal(
            "Reading CIFAR-10 needs pyarrow and pillow: pip install 'sigmascope[parquet]', or pass "
            "the images as an .npz file."
        ) from missing
    try:
        table = parquet.read_table(path, columns=["img", "label"])
        labels = torch.from_numpy(table["label"].to_numpy().copy()).long()
        images = table["img"]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise Refusal(f"`{path}` is damaged or has no columns `img` and `label`.") from error
    rows = choose(len(labels), labels, samples=samples, generator=generator)
    try:
        from PIL import Image
    except ImportError as missing:
        raise Refusal(
            "Decoding CIFAR-10 needs pillow: pip install 'sigmascope[parquet]'."
        ) from missing
    pixels = []
    for row in rows.tolist():
        try:
            image = Image.open(BytesIO(images[row].as_py()["bytes"])).convert("RGB")
        except (OSError, TypeError, KeyError) as error:
            raise Refusal(f"Image {row} of `{path}` is damaged: fetch the file again.") from error
        pixels.append(torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float().div(255))
    name = described(
        f"cifar10 ({split})", len(rows), len(labels), balanced=True, generator=generator
    )
    return torch.stack(pixels), labels[rows], name


def _folders(folder: Path | None) -> Iterator[Path]:
    """Where data sets are looked for; a folder that was named is the only one."""
    if folder is not None:
        if not folder.is_dir():
            raise Refusal(f"There is no folder `{folder}` to look for data in.")
        yield folder
        return
    if os.environ.get("SIGMASCOPE_DATA"):
        yield Path(os.environ["SIGMASCOPE_DATA"]).expanduser()
    yield from (Path("data"), Path("../shared/data"), DEBIAN, cache_folder())


def _fashion_file(name: str, folder: Path | None) -> Path:
    for home in _folders(folder):
        for place in (home / "fashion-mnist", home, home / "FashionMNIST" / "raw"):
            for path in (place / f"{name}.gz", place / name):
                if path.is_file():
                    return path
    if folder is not None:
        raise Refusal(
            f"There is no `{name}.gz` of Fashion-MNIST in `{folder}` or its `fashion-mnist`."
        )
    path = cache_folder() / "fashion-mnist" / f"{name}.gz"
    return fetch(
        f"{FASHION_URL}{name}.gz", path, sha256=FASHION_SHA256[name.removesuffix("-ubyte")]
    )


LARGEST = 1 << 28  # bytes; no file fetched here is near it


def cache_folder() -> Path:
    """`sigmascope` in the user's cache folder; not created."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "sigmascope"


def fetch(url: str, path: Path, *, sha256: str) -> Path:
    """Fetch a gzipped file to `path`, unless what it holds is not what was expected.

    The file appears whole or not at all, also where two processes fetch it at once.

    Args:
        url: Where it is.
        path: Where it shall be; its folder is made.
        sha256: Of the uncompressed content.

    Returns:
        `path`.

    Raises:
        Refusal: If there is no network, the content differs, or it cannot be written.
    """
    instead = (
        f"put `{path.name}` into a folder named `fashion-mnist` and pass its parent as "
        "`--folder`, or name it in the variable SIGMASCOPE_DATA (Debian: apt install "
        "dataset-fashion-mnist)"
    )
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            content = response.read(LARGEST)
        digest = hashlib.sha256(gzip.decompress(content)).hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(
            f"`{path.name}` is not here and cannot be fetched ({told(error)}): {instead}."
        ) from error
    if digest != sha256:
        raise Refusal(
            f"What {url} returned is not the file expected (SHA-256 {digest}): {instead}."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        try:
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink()
            raise
    except OSError as error:
        raise Refusal(f"`{path}` cannot be written ({told(error)}): {instead}.") from error
    return path
