"""Files that appear whole or not at all, and the folder of a run."""
