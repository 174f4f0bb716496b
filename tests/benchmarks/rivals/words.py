"""The tokenizer of all sides of the comparisons: one token for each word `tN`, and two for padding and the end."""

from tokenizers import Tokenizer, models, pre_tokenizers

PAD, END = "<pad>", "<end>"
END_ID = 1


def word_tokenizer(vocabulary: int) -> Tokenizer:
    words = {PAD: 0, END: END_ID} | {f"t{index}": index for index in range(2, vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer
