"""How good outputs are: figures of texts, answers and likelihoods."""
