"""How a model's weights may be rescaled without changing what it computes."""
