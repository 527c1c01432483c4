"""A WordPiece tokenizer over a few words, for tiny models with a vocabulary of 60."""

from __future__ import annotations

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SENTENCES = "a the film was good bad very not and but it is this that plot act great dull"
WORDS = [*SENTENCES.split(), "##ing", "##ed", "##ly"]


def tokenizer_for(max_length: int = 40) -> PreTrainedTokenizerFast:
    """CLS text SEP, or CLS text SEP pair SEP; at most `max_length` word pieces."""
    vocabulary = {word: i for i, word in enumerate(SPECIAL + WORDS + list("bcdefghijklmnopqrstuvwxyz.!?,"))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )
