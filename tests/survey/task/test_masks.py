"""Masks that are where their images say, and those that are not."""

import pytest
import torch

from sigmascope.survey.task.masks import misplaced_share

ABLE = 8

G = torch.Generator().manual_seed(0)
N, SIZE = 24, 32


def blobs(count=N, *, noise=0.3):
    """Images with bright rectangles away from the middle, and where these are."""
    masks = torch.zeros(count, SIZE, SIZE)
    for m in masks:
        a, b = torch.randint(2, 12, (2,), generator=G).tolist()
        m[a : a + 9, b : b + 6] = 1
    images = masks[:, None] + noise * torch.randn(count, 1, SIZE, SIZE, generator=G)
    return images, masks


def moved(images):
    """Each flipped or turned by itself, and shifted."""
    found = []
    for k, x in enumerate(images):
        x = x.flip(2) if k % 2 else x
        found.append(x.rot90(1 + k % 3, (1, 2)).roll((k, 2 * k), (1, 2)))
    return torch.stack(found)


@pytest.mark.parametrize("form", ["floats", "channel", "classes"])
def test_masks_of_images_that_were_moved_are_misplaced(form):
    images, masks = blobs()
    made = {"floats": masks, "channel": masks[:, None], "classes": masks.long() + 3}[form]
    assert misplaced_share(images, made) == 0
    assert misplaced_share(-images, made) == 0  # dark on bright
    assert misplaced_share(moved(images), made) > 0.8
    assert misplaced_share(images.roll((1, -2), (2, 3)), made) == 0  # a pixel or two are none


def test_half_of_them_moved_are_half():
    images, masks = blobs()
    some = torch.where(torch.arange(N)[:, None, None, None] % 2 == 0, images, moved(images))
    assert misplaced_share(some, masks) == pytest.approx(0.5, abs=0.15)


def test_what_is_moved_alike_is_no_augmentation():
    images, masks = blobs()
    assert misplaced_share(images.roll(9, 3), masks) is None


def test_masks_that_brightness_says_nothing_of_tell_nothing():
    images, masks = blobs()
    noise = torch.randn(images.shape, generator=G)
    assert misplaced_share(noise, masks) is None
    assert misplaced_share(noise, torch.randint(0, 8, masks.shape, generator=G)) is None
    assert misplaced_share(images[: ABLE - 1], masks[: ABLE - 1]) is None
    assert misplaced_share(images[:ABLE], masks[:ABLE]) == 0
    assert misplaced_share(images, torch.zeros_like(masks)) is None
    assert misplaced_share(images, masks[:, :-1]) is None
    assert misplaced_share(images, torch.zeros(N, dtype=torch.long)) is None


def test_images_that_are_not_square_are_flipped_alone():
    images, masks = blobs()
    wide = images[..., :28, :], masks[:, :28]
    assert misplaced_share(*wide) == 0
    flipped = torch.stack([x.flip(1 + k % 2).roll(k, 2) for k, x in enumerate(wide[0])])
    assert misplaced_share(flipped, wide[1]) > 0.8
