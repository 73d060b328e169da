"""Whether masks lie where their images say: of each sample by all flips, turns and shifts.

What a mask marks differs in brightness from the rest, mostly. So the mask is laid over its image in
every place, turned and flipped in every way, and it is asked where it agrees most. Where that is
another place for most samples, and not the same one for all, images were moved and their masks were
not, as by an augmentation of one of both. Masks that agree with their images nowhere tell nothing.
"""

from collections import Counter
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

MOST = 32  # samples that are looked at
ABLE = 8  # of which so many must tell
AGREE = 0.1  # squared correlation, from which a mask agrees with an image somewhere
ELSEWHERE = 0.5  # of it, that is left in its own place where it belongs to another
NEAR = 2  # pixels that do not count


def misplaced_share(images: Float[Tensor, "n c h w"], masks: Tensor) -> float | None:
    """Share of the samples whose masks belong to another place.

    Args:
        images: With channels.
        masks: `[n, h, w]` or `[n, 1, h, w]`: classes, or 0 and 1.

    Returns:
        None where too few masks agree with their images anywhere, or all belong to the same other
        place, as with a border that was cut off.
    """
    marks = masks[:, 0] if masks.ndim == 4 and masks.shape[1] == 1 else masks
    if marks.ndim != 3 or images.ndim != 4 or marks.shape[1:] != images.shape[2:]:
        return None
    places = [p for x, m in zip(images[:MOST], marks[:MOST], strict=False) if (p := _place(x, m))]
    away = Counter(p for p in places if p != "here")
    count = sum(away.values())
    if len(places) < ABLE or (count and max(away.values()) > 0.5 * count):
        return None
    return count / len(places)


def _place(image: Tensor, mask: Tensor) -> str:
    """Where a mask agrees most with its image: `here`, another place, or nowhere."""
    x = image.detach().double().cpu()
    a = x - x.mean((1, 2), keepdim=True)
    a = a / a.square().mean((1, 2), keepdim=True).sqrt().clamp_min(1e-12)
    F = torch.fft.fft2(a)
    best, where, here = 0.0, "", 0.0
    m = mask.detach().cpu()
    quarters = range(4) if m.shape[0] == m.shape[1] else (0, 2)
    for flipped, quarter in product((False, True), quarters):
        turned = (m.flip(1) if flipped else m).rot90(quarter)
        marks = turned.unique()
        if not 1 < len(marks) <= 16:
            return ""
        agrees = torch.zeros(a.shape[1:], dtype=torch.float64)
        for mark in marks:
            b = (turned == mark).double()
            share = float(b.mean())
            b = (b - share) / max(share * (1 - share), 1e-12) ** 0.5
            r = torch.fft.ifft2(F * torch.fft.fft2(b).conj()).real / b.numel()
            agrees += r.square().amax(0) / len(marks)
        top = float(agrees.max())
        if top > best * (1 + 1e-9):
            at = divmod(int(agrees.argmax()), agrees.shape[1])
            best, where = top, f"{quarter} quarters, {flipped} {at}"
        if not (flipped or quarter):  # as it is
            around = agrees.roll((NEAR, NEAR), (0, 1))[: 2 * NEAR + 1, : 2 * NEAR + 1]
            here = float(around.max())
    if best < AGREE:
        return ""
    return "here" if here >= ELSEWHERE * best else where
