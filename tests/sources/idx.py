"""Files in the format of MNIST."""

import gzip
import struct


def write_idx(path, array):
    """Write an array of bytes, gzipped."""
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))
