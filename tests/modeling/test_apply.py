"""apply and remove, and the world around them: Trainer, pipelines, checkpointing, compile, PEFT."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from models import batch_of, tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError, RetentionError, UnsupportedModelError
from powerbert.modeling.apply import elimination_of, encoders_of, retention_of

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))


@torch.no_grad()
def logits(model, batch):
    return model(**batch).logits


def test_an_unknown_family_is_refused_with_the_supported_ones_and_the_page():
    from transformers import GPT2Config, GPT2ForSequenceClassification

    model = GPT2ForSequenceClassification(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20))
    with pytest.raises(UnsupportedModelError, match=r"gpt2.*bert, albert.*deberta-v2.*add-a-family\.md"):
        powerbert.apply(model, RELATIVE)
    with pytest.raises(UnsupportedModelError, match="Linear"):
        powerbert.apply(torch.nn.Linear(2, 2), RELATIVE)


def test_a_model_that_only_wraps_one_of_transformers_is_refused_in_one_line():
    """As SentenceTransformer does: it has the configuration of what it wraps, but no base model."""

    class Wrapper(torch.nn.Module):
        config = tiny("bert").config

    with pytest.raises(UnsupportedModelError, match=r"Wrapper.*auto_model") as error:
        powerbert.apply(Wrapper(), RELATIVE)
    assert "\n" not in str(error.value)


def test_a_decoder_is_refused():
    with pytest.raises(UnsupportedModelError, match="is_decoder"):
        powerbert.apply(tiny("bert", "Model", is_decoder=True), RELATIVE)


def test_a_configuration_of_another_depth_is_refused():
    with pytest.raises(RetentionError, match=r"2 entries.*4"):
        powerbert.apply(tiny("bert"), RetentionConfiguration.relative((0.5, 0.1)))


@pytest.mark.parametrize(("retention", "strategy"), [((3, 2, 1, 1), "attn-ws"), (RELATIVE, "best-ws")])
def test_anything_else_is_refused(retention, strategy):
    with pytest.raises(PowerBertError):
        powerbert.apply(tiny("bert"), retention, strategy)


def test_a_refused_apply_leaves_the_model_untouched():
    model = tiny("bert")
    with pytest.raises(RetentionError):
        powerbert.apply(model, RetentionConfiguration.relative((0.5,)))
    assert elimination_of(model) is None
    assert "forward" not in vars(model.bert)


def test_apply_again_replaces_and_remove_twice_is_harmless():
    model, other = tiny("bert"), tiny("bert")
    powerbert.apply(model, RELATIVE)
    second = RetentionConfiguration.relative((0.5, 0.5, 0.5, 0.5))
    powerbert.apply(model, second)
    assert retention_of(model) == second
    assert retention_of(other) is None  # one instance, not the class
    powerbert.remove(powerbert.remove(model))
    assert retention_of(model) is None


def test_a_forward_that_the_instance_had_serves_full_retention_and_comes_back():
    model, batch, calls = tiny("bert"), batch_of([13, 7]), []
    own = type(model.bert).forward

    def mine(*args, **kwargs):
        calls.append(1)
        return own(model.bert, *args, **kwargs)

    model.bert.forward = mine
    expected = logits(model, batch)
    powerbert.apply(model, RELATIVE)
    logits(model, batch)
    assert len(calls) == 1
    powerbert.apply(model, RetentionConfiguration.full(4))
    assert torch.equal(logits(model, batch), expected)
    assert len(calls) == 2
    powerbert.remove(powerbert.remove(model))
    assert model.bert.forward is mine
    assert torch.equal(logits(model, batch), expected)


def test_a_wrapper_around_elimination_stays_and_sees_what_is_applied_and_removed():
    model, batch, calls = tiny("bert"), batch_of([13, 7]), []
    full = logits(model, batch)
    eliminated = logits(powerbert.apply(model, RELATIVE), batch)
    inner = model.bert.forward
    model.bert.forward = lambda *args, **kwargs: (calls.append(1), inner(*args, **kwargs))[1]
    assert torch.equal(logits(model, batch), eliminated)
    assert torch.equal(logits(powerbert.remove(model), batch), full)
    assert torch.equal(logits(powerbert.apply(model, RELATIVE), batch), eliminated)
    assert torch.equal(logits(powerbert.apply(model, RetentionConfiguration.full(4)), batch), full)
    assert len(calls) == 4


def test_a_replica_of_data_parallel_runs_its_own_modules():
    model, batch = powerbert.apply(tiny("bert"), RELATIVE), batch_of([13, 7])
    with torch.no_grad():
        before = model.bert(**batch).pooler_output
        replica = model.bert._replicate_for_data_parallel()
        replica._modules = dict(tiny("bert", seed=1).bert._modules)
        again = replica._replicate_for_data_parallel()
        expected = powerbert.apply(tiny("bert", seed=1), RELATIVE).bert(**batch).pooler_output
        for each in (replica, again):
            torch.testing.assert_close(each(**batch).pooler_output, expected)
        assert torch.equal(model.bert(**batch).pooler_output, before)
    powerbert.remove(model)
    assert "_replicate_for_data_parallel" not in vars(model.bert)


def test_albert_counts_every_use_of_every_layer_of_a_group():
    model = tiny("albert", inner_group_num=2)
    assert encoders_of(model) == 8
    with TorchEngine(model, tokenizer_for()) as engine:
        assert engine.word_vectors([5, 7]) == 8 * 12
    powerbert.apply(model, RetentionConfiguration.relative([1.0] * 4 + [0.5] * 4))
    with TorchEngine(model, tokenizer_for()) as engine:
        assert engine.word_vectors([5, 7]) == 4 * 12 + 4 * (3 + 4)
    assert logits(model, batch_of([7, 5])).isfinite().all()


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_hidden_layers": 1},
        {"num_hidden_layers": 7, "num_attention_heads": 1},
        {"hidden_size": 40, "num_attention_heads": 8},
    ],
)
def test_any_depth_width_and_head_count(sizes):
    model = tiny("bert", **sizes)
    depth = sizes.get("num_hidden_layers", 4)
    powerbert.apply(model, RetentionConfiguration.relative([0.5] * depth))
    assert logits(model, batch_of([9, 5])).isfinite().all()


def test_copies_and_pickles_keep_elimination_and_stand_alone():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    batch = batch_of([13, 7])
    answer = logits(model, batch)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(logits(twin, batch), answer)
        with torch.no_grad():
            twin.bert.encoder.layer[0].output.dense.weight.zero_()
        assert not torch.equal(logits(twin, batch), answer)
        assert torch.equal(logits(model, batch), answer)


def test_trainer_trains_and_evaluates_a_model_with_elimination(tmp_path):
    from transformers import Trainer, TrainingArguments

    model = powerbert.apply(tiny("bert"), RELATIVE)
    ids = torch.randint(5, 60, (16, 12), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": i % 2} for i, row in enumerate(ids)]
    arguments = TrainingArguments(
        str(tmp_path), max_steps=3, per_device_train_batch_size=4, report_to=[], use_cpu=True, disable_tqdm=True
    )
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
    before = model.classifier.weight.detach().clone()
    trainer.train()
    assert not torch.equal(before, model.classifier.weight)
    assert "eval_loss" in trainer.evaluate()


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(reentrant):
    batch = batch_of([20, 9]) | {"labels": torch.tensor([0, 1])}
    gradients = []
    for checkpointing in (False, True):
        model = powerbert.apply(tiny("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), RELATIVE)
        model.train()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model(**batch).loss.backward()
        gradients.append([p.grad for p in model.bert.encoder.parameters()])
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)


@pytest.mark.parametrize(
    ("retention", "backend"),
    [
        pytest.param(
            RetentionConfiguration.relative((0.6, 0.3)), "inductor", marks=pytest.mark.slow
        ),  # it compiles C++
        (RetentionConfiguration.relative((0.6, 0.3)), "aot_eager"),
        (RetentionConfiguration.absolute((12, 5), 20), "aot_eager"),
    ],
    ids=str,
)
def test_torch_compile_answers_the_same_at_changing_shapes_from_one_graph(retention, backend):
    from torch._dynamo.utils import counters

    model = powerbert.apply(tiny("bert", num_hidden_layers=2), retention)
    compiled = torch.compile(model, dynamic=True, backend=backend)
    counters.clear()
    for lengths in ([13, 7, 20], [5, 6], [18, 2, 3, 4]):
        batch = batch_of(lengths, width=22)
        torch.testing.assert_close(logits(compiled, batch), logits(model, batch), atol=1e-5, rtol=0)
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


@pytest.mark.parametrize("before", [True, False])
def test_lora_trains_inside_elimination(before):
    from peft import LoraConfig, get_peft_model

    model = tiny("bert")
    if before:
        powerbert.apply(model, RELATIVE)
    lora = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"]))
    if not before:
        powerbert.apply(lora, RELATIVE)
    assert retention_of(lora) == RELATIVE
    lora.train()
    lora(**batch_of([13, 7]), labels=torch.tensor([0, 1])).loss.backward()
    trained = [name for name, p in lora.named_parameters() if p.grad is not None]
    assert any("lora_A" in name for name in trained)
    assert not any("base_layer" in name for name in trained)
