"""What profiles read on request, because of a theorem: one file a view."""
