"""One readable file an architecture: its sizes, and the wiring of its paper."""
