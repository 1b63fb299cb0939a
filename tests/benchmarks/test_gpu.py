from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import gpu

ROW = "features-deep-5-3-c64"


def test_exported_program_has_the_arguments_the_result_of_the_cpu_and_products_in_full_float32(tmp_path: Path) -> None:
    gpu.export(ROW, gpu.references([ROW])[ROW], tmp_path)
    data = np.load(tmp_path / f"{ROW}.npz")
    row = gpu.parse_row(ROW)
    step, arguments = gpu.step_of(row, row.config())
    np.testing.assert_allclose(step(*arguments), data["expected"], atol=1e-6)
    given = [data[key] for key in sorted(data) if key.startswith("argument")]
    # The features are the only float32 array of this shape.
    assert [value.shape for value in given if value.dtype == np.float32] == [(3, 5)]
    assert (tmp_path / f"{ROW}.hlo").stat().st_size > 10_000


def test_products_in_float32_keep_their_mantissa_on_gpus() -> None:
    row = gpu.parse_row("features-deep-12-1-c64")
    step, arguments = gpu.step_of(row, row.config())
    lines = step.experimental_get_compiler_ir(*arguments)(stage="hlo").splitlines()  # type: ignore[attr-defined]
    products = [line for line in lines if " dot(" in line and "f32[" in line.split(" dot(")[0]]
    assert products
    assert all("operand_precision={highest,highest}" in line for line in products)


def test_a_step_of_deep_moves_the_state_twice_forward_and_four_times_backward_for_each_group() -> None:
    state = 8 * 2**12
    assert gpu.least_bytes(gpu.parse_row("features-deep-12-2-c64")) % (6 * 2 * state) == 0
    assert gpu.least_bytes(gpu.parse_row("features-hybrid-12-2-c128")) == 0


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="has a GPU")
def test_rows_without_a_gpu_are_not_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["gpu", "--rows", ROW])
    gpu.main()
    assert "features, deep, 5, 3, c64 | not run" in capsys.readouterr().out


def test_bad_row_is_one_line_with_the_choices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu", "--rows", "rows-deep-5-3-c64"])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == 2
    assert "Given: rows-deep-5-3-c64" in capsys.readouterr().err
