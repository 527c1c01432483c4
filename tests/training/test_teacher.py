"""The teacher's answers as a column of the training data."""

import torch
from models import tiny
from runs import small_data
from texts import tokenizer_for

from powerbert.tasks.encoding import encode_split
from powerbert.text.batches import Collator
from powerbert.training.teacher import with_answers


def test_each_row_carries_the_teachers_own_answer_and_cls_vector_whatever_batch_it_was_asked_in():
    data, tokenizer, teacher = small_data(), tokenizer_for(), tiny("bert").eval()
    encoded = encode_split(data.splits["train"], data.task, tokenizer, 32)
    answered = with_answers(encoded, teacher, tokenizer, vectors=True)
    collate = Collator(tokenizer)
    for row in (0, 7, 47):
        batch = collate([answered[row]])
        taught = batch.pop("teacher")
        with torch.no_grad():  # the oracle: the row alone through the plain model
            logits = teacher(input_ids=batch["input_ids"]).logits
            vector = teacher.bert(input_ids=batch["input_ids"])[0][:, 0]
        torch.testing.assert_close(taught, torch.cat([logits, vector], dim=1), atol=1e-5, rtol=1e-4)
    alone = with_answers(encoded, teacher, tokenizer, vectors=False)
    assert len(alone[0]["teacher"]) == teacher.config.num_labels
