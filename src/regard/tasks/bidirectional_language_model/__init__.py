"""Words told from those before them and from those behind them: ELMo, whose states stand for words in their context."""
