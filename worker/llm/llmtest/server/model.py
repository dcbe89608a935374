#!/usr/bin/env python3
"""Writes a tiny Llama model with random weights and a tokenizer of its own into a folder.

usage: model.py DIR

A server that loads the folder is real in all but the sense of what it says: it tokenizes, batches, caches, thinks,
stops and runs out of its budget. Nothing is downloaded, and the same versions of the libraries write the same files.
About a million weights, 4 MB on disk.
"""
import json
import os
import random
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

VOCAB = 2048
HIDDEN = 128
SPECIAL = ["<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<think>", "</think>"]

# The standard deviation of a weight of the output matrix, times the length of what it meets. At 2.5 the likeliest token
# has some 5 to 30 %: greedy answers fall into loops, which n-gram speculation guesses, and sampled ones it guesses at
# times.
SPREAD = 2.5
# What is added to the logit of a token. As observed at temperature 1, about every 50th token leaves the thinking, which
# greedy answers do as well, and every 400th ends the answer.
LEAVE, END, NEVER = 4.0, 3.7, -30.0

# A thinking prompt opens the thought itself, as those of current models do. reasoning_effort changes the length of
# the prompt, so a client that counts with other arguments than it generates with is found out.
CHAT = """\
{%- if reasoning_effort is defined and reasoning_effort %}{{ '<|system|>effort ' + reasoning_effort + '<|end|>' }}{% endif %}
{%- for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}
{%- if enable_thinking is not defined or enable_thinking %}{{ '<think>' }}{% else %}{{ '<think></think>' }}{% endif %}
{%- endif %}"""


def text(seed: int):
    """Yields lines of made-up words, some with letters outside ASCII, for the training of the tokenizer."""
    rng = random.Random(seed)
    syllables = [c + v for c in "b d f g k l m n p r s t v z ch st".split() for v in "a e i o u é ü ß ø 語 →".split()]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(3000)]
    words += "the of a to in is was that for on court record section page".split() * 20
    for _ in range(4000):
        line = " ".join(rng.choices(words, k=rng.randint(5, 20)))
        yield f"{rng.randint(1, 9999)}. {line.capitalize()}{rng.choice('.!?;:')}\n"


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE: every text has tokens, and none is changed on the way there and back."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(text(1), trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>", pad_token="<|pad|>",
                                   clean_up_tokenization_spaces=False)
    fast.chat_template = CHAT
    return fast


def whole(raw: str) -> bool:
    """Reports whether the token is complete characters. Parts of one would show as replacement characters."""
    back = {char: byte for byte, char in byte_chars().items()}
    try:
        bytes(back[c] for c in raw).decode()
    except UnicodeDecodeError:
        return False
    return True


def byte_chars() -> dict:
    """The letters that byte-level BPE writes for the 256 bytes, as GPT-2 fixed them."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}


def model(tok: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Random weights, but for the first hidden dimension: it is the same at every token and through every layer, so
    its column of the output matrix is a bias of each token, which the architecture has none of."""
    torch.manual_seed(1)
    net = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=352, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32768, bos_token_id=None, eos_token_id=tok.eos_token_id,
        pad_token_id=tok.pad_token_id, tie_word_embeddings=False))
    ids = tok.get_vocab()
    bias = torch.zeros(VOCAB)
    for raw, i in ids.items():
        if raw in SPECIAL or not whole(raw):
            bias[i] = NEVER
    bias[ids["</think>"]] = LEAVE
    bias[ids["<|end|>"]] = END
    with torch.no_grad():
        for p in net.parameters():
            if p.dim() == 2:
                p.normal_(0, HIDDEN**-0.5)
        net.model.embed_tokens.weight.normal_(0, 1)
        net.model.embed_tokens.weight[:, 0] = HIDDEN**0.5
        for layer in net.model.layers:
            layer.self_attn.o_proj.weight[0] = 0
            layer.mlp.down_proj.weight[0] = 0
        # The norm leaves a length of sqrt(HIDDEN); what comes out in the first dimension is measured, not derived.
        first = net.model(torch.arange(VOCAB)[:, None]).last_hidden_state[:, 0, 0].mean()
        net.lm_head.weight.normal_(0, SPREAD * HIDDEN**-0.5)
        net.lm_head.weight[ids["<|end|>"]] = 0
        net.lm_head.weight[:, 0] = bias / first
    net.generation_config.temperature = 1.0
    net.generation_config.do_sample = True
    return net


def main(folder: str) -> None:
    """Saves both under the folder; config.json is the last file, so a folder that has it is complete."""
    logging.disable_progress_bar()
    os.makedirs(folder, exist_ok=True)
    tok = tokenizer()
    net = model(tok)
    tok.save_pretrained(folder)
    net.save_pretrained(folder)
    config = os.path.join(folder, "config.json")
    os.replace(config, config + ".new")
    os.replace(config + ".new", config)
    print(json.dumps({"weights": sum(p.numel() for p in net.parameters()), "vocabulary": len(tok)}))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: model.py DIR")
    main(sys.argv[1])
