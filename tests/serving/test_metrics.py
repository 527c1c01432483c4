"""Counters in Prometheus' format. Oracle: prometheus_client's own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from powerbert.serving.batcher import Ran
from powerbert.serving.metrics import Metrics


def values(metrics):
    families = text_string_to_metric_families(metrics.text().decode())
    return {(each.name, *sorted(each.labels.values())): each.value for family in families for each in family.samples}


def test_requests_batches_and_the_queue_are_counted():
    metrics, queue = Metrics(encoders=4), [1, 2, 3]
    metrics.watch(lambda: len(queue))
    metrics.answered("/predict", 200, 0.003)
    metrics.answered("/predict", 200, 0.3)
    metrics.answered("/predict", 429, 0.001)
    metrics.ran(Ran([10, 6], 40, 0.02))
    found = values(metrics)
    assert found["powerbert_requests_total", "/predict", "200"] == 2
    assert found["powerbert_requests_total", "/predict", "429"] == 1
    assert found["powerbert_request_seconds_count", "/predict"] == 3
    assert found["powerbert_inputs_total",] == 2
    assert found["powerbert_word_vectors_total",] == 40
    assert found["powerbert_word_vectors_full_total",] == 64
    assert found["powerbert_batch_inputs_sum",] == 2
    assert found["powerbert_batch_seconds_count",] == 1
    assert found["powerbert_waiting_inputs",] == 3
    queue.clear()
    assert values(metrics)["powerbert_waiting_inputs",] == 0


def test_servers_of_one_process_count_for_themselves():
    first, second = Metrics(1), Metrics(1)
    first.ran(Ran([5], 5, 0.1))
    assert values(second)["powerbert_inputs_total",] == 0
