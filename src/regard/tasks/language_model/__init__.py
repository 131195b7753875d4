"""Language models: continuations of texts."""
