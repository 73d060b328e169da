"""What rounding leaves of a layer's output, in the format that it is in.

The invariant: sums of narrow formats are added up in single precision, so that what many of them
add up to grows with single precision's roundings, and of the format's own there are few, however
wide a layer is. A bound of many of the format's own would let anything pass as the same.
"""

import torch

FEW = 8  # of the format's own: products, a bias, and what is written


def rounding(dtype: torch.dtype, steps: float) -> float:
    """Relative rounding of what is added up in so many steps and written in a format.

    Args:
        dtype: Of what is written; real and floating.
        steps: Roundings of a sum, each as large as what is added up.

    Source:
        Higham 2002, section 3.1, for the sum.

    Example:
        >>> rounding(torch.float32, 256) == 256 * 2.0**-23, rounding(torch.bfloat16, 256) < 0.1
        (True, True)
    """
    eps, single = torch.finfo(dtype).eps, torch.finfo(torch.float32).eps
    return steps * eps if eps <= single else FEW * eps + steps * single
