from benchmarks import large_states


def test_traffic_of_a_step_counts_every_pass_over_the_state() -> None:
    """The forward pass runs twice. A tile or exchange reads and writes the state, and in the gradient two states."""
    for qubits in (20, 28):
        passes = large_states.traffic(large_states.read_network_of(qubits))
        # A product, a density matrix and the adjoint state in addition to the tiles and exchanges.
        tiles, rest = divmod(passes - (2 * 2 + 4 + 1), 8)
        assert rest == 0
        assert 5 <= tiles <= 12


def test_steps_on_large_states_use_the_planned_memory() -> None:
    found = large_states.measure(22)
    assert 2 * 2**22 * 8 < found["planned"] < 1.1 * 2 * 2**22 * 8
    assert found["seconds"] > 0
    assert found["least"] > 0
