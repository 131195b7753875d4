"""Models that others published: how their files are read and written, and what their names are here."""
