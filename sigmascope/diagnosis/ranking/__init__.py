"""Which of some designs to train."""

from sigmascope.diagnosis.ranking.designs import Entry, Ranked, looked, rank, ranked_entries

__all__ = ["Entry", "Ranked", "looked", "rank", "ranked_entries"]
