"""Measures the singular values of deep networks and says what they mean."""

__version__ = "0.1.0"
