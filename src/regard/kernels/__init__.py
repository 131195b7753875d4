"""Pure functions on tensors: a plain reference beside each fused form."""
