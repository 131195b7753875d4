"""From texts to outputs and what they looked at: search and attention over lists of texts."""
