"""Sets of vectors whose answer is an order or a choice of them: pointer networks."""
