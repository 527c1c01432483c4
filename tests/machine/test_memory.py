"""Memory of a piece of work. Oracle: the bytes that it is made to take."""

from powerbert.machine.memory import extra_megabytes


def test_extra_memory_is_what_the_work_takes_at_its_height():
    assert extra_megabytes(lambda: bytearray(b"x") * 100_000_000) > 80
