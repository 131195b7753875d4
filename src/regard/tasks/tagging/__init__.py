"""A tag for each word of a text, and the entities that tags form."""
