"""Random tiny models of the transformers library, one a family."""

from collections.abc import Callable
from typing import Any

import torch

Build = Callable[[Any], Any]
TEXT = {"vocab_size": 31, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 12, "intermediate_size": 5}
SEQ2SEQ = {
    "vocab_size": 31,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 5,
    "decoder_ffn_dim": 5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
T5 = {"vocab_size": 31, "d_model": 12, "d_kv": 6, "d_ff": 5, "num_layers": 2, "num_heads": 2, "pad_token_id": 0}
EXPERTS = {"num_experts": 2, "encoder_sparse_step": 2, "decoder_sparse_step": 2, "expert_capacity": 100}
IMAGE = {"image_size": 8, "patch_size": 4}

ENCODERS: dict[str, Build] = {
    "bert": lambda t: t.BertModel(t.BertConfig(**TEXT)),
    "roberta": lambda t: t.RobertaModel(t.RobertaConfig(**TEXT, pad_token_id=1)),
    "albert": lambda t: t.AlbertModel(t.AlbertConfig(**TEXT, embedding_size=6)),
    "distilbert": lambda t: t.DistilBertModel(
        t.DistilBertConfig(vocab_size=31, dim=12, n_layers=2, n_heads=2, hidden_dim=5)
    ),
    "electra": lambda t: t.ElectraModel(t.ElectraConfig(**TEXT, embedding_size=6)),
    "modernbert": lambda t: t.ModernBertModel(
        t.ModernBertConfig(**TEXT, pad_token_id=0, local_attention=4, global_attn_every_n_layers=2)
    ),
}
DECODERS: dict[str, Build] = {
    "gpt2": lambda t: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=31, n_embd=12, n_layer=2, n_head=2, eos_token_id=None)),
    "llama": lambda t: t.LlamaForCausalLM(t.LlamaConfig(**TEXT, num_key_value_heads=1, eos_token_id=None)),
    "mistral": lambda t: t.MistralForCausalLM(
        t.MistralConfig(**TEXT, num_key_value_heads=1, sliding_window=4, eos_token_id=None)
    ),
    "qwen2": lambda t: t.Qwen2ForCausalLM(t.Qwen2Config(**TEXT, num_key_value_heads=1, eos_token_id=None)),
    "gemma2": lambda t: t.Gemma2ForCausalLM(
        t.Gemma2Config(**TEXT, num_key_value_heads=1, head_dim=6, sliding_window=4, eos_token_id=None)
    ),
    "doge": lambda t: t.DogeForCausalLM(
        t.DogeConfig(**TEXT, num_key_value_heads=1, keep_window_size=99, eos_token_id=None)
    ),
    "gemma3": lambda t: t.Gemma3ForCausalLM(
        t.Gemma3TextConfig(**TEXT, num_key_value_heads=1, head_dim=6, sliding_window=4, eos_token_id=None)
    ),
}
PAIRS: dict[str, Build] = {
    "t5": lambda t: t.T5ForConditionalGeneration(t.T5Config(**T5, decoder_start_token_id=0)),
    "bart": lambda t: t.BartForConditionalGeneration(t.BartConfig(**SEQ2SEQ)),
    "nllb-moe": lambda t: t.NllbMoeForConditionalGeneration(t.NllbMoeConfig(**SEQ2SEQ, **EXPERTS)),
}


def tiny(name: str) -> Any:
    """The random model of a family, in evaluation mode."""
    import transformers

    torch.manual_seed(3)
    model = (ENCODERS | DECODERS | PAIRS)[name](transformers).eval()
    model.set_attn_implementation("sdpa") if model._supports_sdpa else None
    return model
