"""Export of trained runs to other runtimes. Each export is compared with its run."""
