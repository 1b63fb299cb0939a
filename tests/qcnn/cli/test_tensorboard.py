"""Tests of qcnn tensorboard with HTTP requests to TensorBoard."""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3
import psutil
import pytest
from moto.server import ThreadedMotoServer

from qcnn import data
from qcnn.cli.main import main
from qcnn.components.training_job import local_job
from qcnn.errors import ArtifactError
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.local.runner import run_processes
from qcnn.model import checkpoints
from qcnn.storage.store import BucketUri, Store
from qcnn.storage.sync import open_store
from qcnn.targets.artifacts import LogSource, deduplicate, local_run_logs, resolve_logs
from tests.forks import forked_training
from tests.tensorboard_server import opened

# A checkpoint after each epoch.
WORDS = {"qubits": 4, "rounds": 10, "batch_size": 8, "epochs": 3, "options": {"checkpoint_seconds": 1e-9}}


def _train(folder: Path, **words: object) -> None:
    """Train like the train step of a run, in the folder of a run."""
    config = from_mapping({**WORDS, **words})
    dataset = folder / "generate-data" / "dataset"
    if not dataset.exists():
        data.save(data.generate(config), dataset)
    job = local_job(config, str(dataset), str(folder / "train/training"), str(folder / "train/logs"))
    run_processes(job, lambda name, event: None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, fork_variables: Mapping[str, str]) -> Path:
    """Return a folder of two runs: one with two workers, one killed after logging epoch 2 and before its checkpoint."""
    runs = tmp_path_factory.mktemp("user") / "runs"
    died = {"strategy": "none", "workers": 1}
    with forked_training(fork_variables):
        _train(runs / "two-workers", learning_rate=0.5)
        _train(runs / "died", **died, epochs=2)
        (runs / "died/train/training/checkpoints/epoch-000002.npz").unlink()
        _train(runs / "died", **died)
    return runs


@pytest.mark.long
def test_tensorboard_serves_runs_by_name(runs: Path) -> None:
    with opened(folder=runs.parent) as board:
        tags = board.wait("plugin/scalars/tags", lambda found: len(found) == 4)
        assert set(tags) == {f"{run}/{split}" for run in ("two-workers", "died") for split in ("train", "validation")}
        parameters = {f"parameters/s{index}" for index in range(21)}
        measures = {"loss", "accuracy", "gradient_norm", "learning_rate"}
        assert set(tags["two-workers/train"]) == parameters | measures
        # Values that were logged before and after the crash appear once.
        points = board.wait("plugin/scalars/scalars", lambda found: len(found) >= 3, run="died/validation", tag="loss")
        checkpoint = checkpoints.load_latest(runs / "died/train/training/checkpoints")
        assert checkpoint
        assert [step for _, step, _ in points] == [4, 8, 12]
        assert [loss for *_, loss in points] == pytest.approx([epoch.val_loss for epoch in checkpoint.history])
        assert len(board.wait("plugin/histograms/tags", lambda found: len(found) == 2)["died/validation"]) == 2
        for plugin in ("images", "text"):
            assert set(board.wait(f"plugin/{plugin}/tags", lambda found: len(found) == 2)) == {"two-workers", "died"}
        assert board.wait("plugin/graphs/info", lambda found: len(found) == 2)["died/train"]["run_graph"]


@pytest.mark.long
def test_hparams_compare_fields_and_metrics_of_runs(runs: Path) -> None:
    with opened("two-workers", "died", folder=runs.parent) as board:
        board.wait("plugin/scalars/tags", lambda found: len(found) == 4)
        request = {"startIndex": 0, "sliceSize": 9, "allowedStatuses": ["STATUS_UNKNOWN"]}
        board.wait("runs", lambda found: len(found) == 6)
        groups = board.get("plugin/hparams/session_groups", request)["sessionGroups"]
        words = {group["sessions"][0]["name"]: group["hparams"] for group in groups}
        assert {run: values["learning_rate"] for run, values in words.items()} == {"two-workers": 0.5, "died": 0.05}
        expected = from_mapping({**WORDS, "learning_rate": 0.5}).model_dump()
        options = expected.pop("options")
        assert words["two-workers"] == {**expected, **options}
        for group in groups:
            metrics = {(value["name"]["group"], value["name"]["tag"]): value for value in group["metricValues"]}
            assert len(metrics) == 4
            assert metrics["validation", "loss"]["trainingStep"] == 12


@pytest.mark.long
def test_only_chief_writes_and_its_profile_opens(runs: Path) -> None:
    logs = runs / "two-workers/train/logs"
    files = [path for path in logs.rglob("*") if path.is_file()]
    (trace,) = logs.rglob("*.xplane.pb")
    # Compiled functions appear only under this name.
    assert b"ThunkExecutor::Execute" in trace.read_bytes()
    assert len(files) == 4
    with opened(str(runs / "two-workers"), folder=runs.parent) as board:
        (run,) = board.wait("plugin/profile/runs", lambda found: len(found) == 1)
        assert run.startswith("profiles/two-workers/train/")
        (host,) = board.get("plugin/profile/hosts", run=run, tag="framework_op_stats")
        table, *_ = board.get("plugin/profile/data", run=run, tag="framework_op_stats", host=host["hostname"])
        assert "CollectiveReduce" in str(table["rows"])


@pytest.mark.long
def test_terminated_tensorboard_leaves_no_process_and_file(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # Processes that other tests share.
    shared = psutil.Process().children(recursive=True)
    with opened(folder=runs.parent):
        children = set(psutil.Process().children(recursive=True)).difference(shared)
        assert children
        assert len(list(tmp_path.glob("qcnn-tensorboard-*"))) == 1
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not list(tmp_path.glob("qcnn-tensorboard-*"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "error: runs: the folder has no run with logs; `qcnn run` creates one. Given: runs"),
        (["--runs", "missing"], "error: runs: the folder has no run with logs; `qcnn run` creates one. Given: missing"),
        (
            ["mine"],
            "error: run: must be a folder with logs, the name of a folder in runs, a bucket URI or the ID of a remote "
            "run. Given: mine",
        ),
        (["ftp://bucket/logs"], "error: uri: must be a local folder or gs://BUCKET/FOLDER"),
        (["--experiment", "papers", "--host", "http://127.0.0.1:9"], "error: host: no response"),
        (["--job", "none"], "error: cluster: no valid configuration; set KUBECONFIG"),
        (["good", "--port", "-1"], "error: Invalid value for '--port': -1 is not in the range 0<=x<=65535."),
        (
            ["good", "--bind-address", "no.such.invalid", "--port", "1"],
            "error: port: cannot be used on no.such.invalid (",
        ),
    ],
)
def test_invalid_input_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "good/train/logs").mkdir(parents=True)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert _error(tmp_path, monkeypatch, capsys, arguments).startswith(line)


def test_used_port_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good/train/logs").mkdir(parents=True)
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        line = _error(tmp_path, monkeypatch, capsys, ["good", "--port", str(port)])
    assert line == f"error: port: cannot be used on localhost (Address already in use). Given: {port}"


def test_different_runs_with_equal_name_are_an_error(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "same/train/logs").mkdir(parents=True)
    given = [resolve_logs(str(tmp_path / parent / "same"), tmp_path) for parent in ("a", "b", "a")]
    found = [logs for logs in given if logs]
    with pytest.raises(ArtifactError, match=r"^run: names must be unique among different runs\. Given: same$"):
        deduplicate(found)
    assert [logs.name for logs in deduplicate([found[0], found[2]])] == ["same"]
    assert [logs.name for logs in local_run_logs(tmp_path / "a")] == ["same"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("minio://mlpipeline/v2/artifacts/qcnn/0-0/train/0-0-train-0-1f/logs", "0-0-train-0-1f"),
        ("gs://bucket/runs/first/train/logs", "first"),
        ("s3://bucket/experiments", "experiments"),
        ("s3://bucket", "bucket"),
        ("s3://logs", "logs"),
    ],
)
def test_logs_in_bucket_have_name_of_run(tmp_path: Path, given: str, name: str) -> None:
    assert resolve_logs(given, tmp_path) == LogSource(name, given)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Return the store of a run's logs in a bucket, s3://bucket/mine."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="bucket")
    with contextlib.closing(open_store(BucketUri("s3", "bucket", "mine/train/logs"))) as store:
        yield store
    server.stop()


@pytest.mark.long
def test_new_logs_in_bucket_are_displayed(runs: Path, store: Store, tmp_path: Path) -> None:
    (events,) = (runs / "two-workers/train/logs/validation").iterdir()
    content = events.read_bytes()
    half = tmp_path / "half"
    half.write_bytes(content[: len(content) // 2])
    store.write(half, f"validation/{events.name}")
    with opened("s3://bucket/mine/train/logs", folder=tmp_path) as board:
        series = {"run": "mine/validation", "tag": "loss"}
        points = board.wait("plugin/scalars/scalars", lambda found: len(found) >= 1, **series)
        assert len(points) < 3
        store.write(events, f"validation/{events.name}")
        points = board.wait("plugin/scalars/scalars", lambda found: len(found) >= 3, **series)
        assert [step for _, step, _ in points] == [4, 8, 12]


@pytest.mark.usefixtures("store")
def test_bucket_without_logs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["qcnn", "tensorboard", "s3://bucket/none"])
    with pytest.raises(SystemExit):
        main()
    reading, line = capsys.readouterr().err.splitlines()
    assert reading == "reading s3://bucket/none"
    assert line == "error: logs: must exist, unless --wait is given. Given: s3://bucket/none"


def _error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> str:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["qcnn", "tensorboard", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line
