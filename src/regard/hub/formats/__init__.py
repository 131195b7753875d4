"""File formats of published models: reading, writing, and the translation of names."""
