"""Generated data whose answers and alignments are known."""
