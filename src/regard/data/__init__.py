"""Records to examples to padded batches: readers, generated data, and which examples share a batch.

Import from the modules: only `pair_batch` needs torch, so a run file can be checked without loading it.
"""
