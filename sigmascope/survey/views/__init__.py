"""One file for each view: a subject in, readings out."""
