"""Students. Oracle: the weights of the named encoders of the teacher."""

from __future__ import annotations

import pytest
import torch
import transformers
from model_folders import refusal
from models import FAMILIES, batch_of, tiny
from texts import tokenizer_for

import powerbert
from powerbert.baselines.students import StudentOptions, alternate, check_depth, student_of
from powerbert.bench.arms import flops
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.apply import encoders_of
from powerbert.modeling.families import family_of

ALIKE = [name for name in FAMILIES if name not in ("albert", "modernbert")]


def encoders(model):
    return family_of(model.base_model).encoders(model.base_model)


@pytest.mark.parametrize("family", ALIKE)
def test_a_student_is_the_named_encoders_the_embeddings_and_the_head(family):
    teacher = tiny(family)
    student = student_of(teacher, [1, 4])
    assert student.config.num_hidden_layers == encoders_of(student) == 2
    assert encoders_of(teacher) == teacher.config.num_hidden_layers == 4
    for own, taught in zip(encoders(student), (encoders(teacher)[0], encoders(teacher)[3]), strict=True):
        assert all(torch.equal(own.state_dict()[name], weight) for name, weight in taught.state_dict().items())
        assert not {weight.data_ptr() for weight in own.parameters()} & {w.data_ptr() for w in taught.parameters()}
    of_encoders = {
        id(weight) for model in (teacher, student) for layer in encoders(model) for weight in layer.parameters()
    }
    rest = [[w for w in model.parameters() if id(w) not in of_encoders] for model in (teacher, student)]
    assert len(rest[0]) > 3
    assert all(torch.equal(*pair) for pair in zip(*rest, strict=True))


@pytest.mark.parametrize("family", ALIKE)
def test_plain_transformers_loads_a_student(family, tmp_path):
    student = student_of(tiny(family), [1, 3])
    powerbert.save(student, tokenizer_for(), tmp_path / "student")
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "student").eval()
    batch = batch_of([9, 12], pad=student.config.pad_token_id or 0)
    with torch.no_grad():
        assert torch.equal(plain(**batch).logits, student(**batch).logits)


def test_half_of_the_encoders_is_half_of_their_work():
    full = tiny("bert")
    one, two = (flops(student_of(full, range(1, k + 1)), 1, 8) for k in (1, 2))
    assert flops(full, 1, 8) - two == 2 * (two - one)


def test_alternate_encoders_are_those_of_distilbert():
    """Oracle: the layers that DistilBERT's own script extracts, 0, 2, 4, 7, 9 and 11."""
    assert alternate(6, of=12) == [1, 3, 5, 8, 10, 12]
    assert alternate(4, of=12) == [1, 5, 8, 12]
    assert alternate(3, of=12) == [1, 7, 12]
    assert alternate(1, of=4) == [1]
    for of in range(2, 25):
        for k in range(1, of):
            assert len({*alternate(k, of)}) == k


def test_what_makes_no_smaller_model_is_one_line():
    for wrong in (0, 4, -1, 2.0, True, None):
        assert "from 1 to 3" in refusal(PowerBertError, lambda wrong=wrong: check_depth(wrong, 4))
    for family in ("albert", "modernbert"):
        message = refusal(UnsupportedModelError, lambda family=family: student_of(tiny(family), [1]))
        assert "cannot change their places" in message
    assert "hidden-weight" in refusal(PowerBertError, lambda: StudentOptions(hidden_weight=-1.0))
