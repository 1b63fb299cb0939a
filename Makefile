# `make` without a target prints the targets.
BIN := .venv/bin
ARGS ?=
# Variables of the Kubernetes targets. REGISTRY: registry to push to. BUILD: further arguments of docker build. IMAGE: an
# existing image, instead of a build. NAME: name of the run. OUTPUT: URI of the outputs. POD: pod settings file.
# NAMESPACE: namespace, if it is not that of the context. EXTRA=gpu: build the image with CUDA libraries, tag
# suffix -gpu; EXTRA=tfq likewise with TensorFlow Quantum.
REGISTRY ?=
EXTRA ?=
# A modified working tree gets a different tag for each change, because nodes cache images by tag.
TAG ?= $(shell git rev-parse --short=12 HEAD)$(shell git diff --quiet HEAD || echo "-$$(git diff HEAD | git hash-object --stdin | cut -c1-8)")
suffix = $(if $(EXTRA),-$(EXTRA))
image = $(if $(IMAGE),$(IMAGE),$(REGISTRY)/qcnn:$(TAG)$(suffix))
NAME = qcnn
OUTPUT =
pods = --image $(image) $(if $(POD),--pod $(POD))
where = $(if $(NAMESPACE),--namespace $(NAMESPACE))
# Two processes of 5 GB each run the tests, one file at a time; a selection of tests is faster in one process. The order
# of the files is kept: tests/durations.py sorts them.
parallel = $(if $(ARGS),,--numprocesses logical --maxprocesses 2 --dist loadfile --no-loadscope-reorder)
# Without ARGS, slow tests are skipped.
fast = $(if $(ARGS),,--fast)
# Files that determine what an environment contains.
installed = uv.lock pyproject.toml scripts/setup.py $(wildcard hatch_build.py qcnn/simulators/kernels/*.[chi]*)
# Tests of `make test-all` and `make test-long`.
complete = "not faults and not cluster and not kfp and not tfq and not model_registry"
# The test paths in ARGS, or else those of the target.
tests = $(if $(filter tests/%,$(ARGS)),,$(1)) $(ARGS)
cluster_tests = $(call tests,tests/cluster tests/qcnn/jobs/test_apiserver.py)

# With cached bytecode, each of the many processes of the tests starts faster, and pytest collects in half the time.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup kernels run demo-vertex push training inference tensorboard delete-training delete-inference \
  delete-tensorboard k8s-demo test test-all test-long test-complete test-durations test-tfq test-oldest test-faults test-cluster test-kfp \
  test-model-registry lint types docs compile image figures frameworks simulators audit sbom wheels release-check clean

help: ## print the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r target text; do printf '  make %-18s %s\n' "$$target" "$$text"; done

setup: .venv$(if $(filter-out gpu,$(EXTRA)),-$(EXTRA))/.complete ## install all dependencies into .venv (other targets run this when required); EXTRA=tfq: TensorFlow Quantum into .venv-tfq

.venv/.complete: $(installed)
	@python=$$(scripts/find-python) && "$$python" scripts/setup.py && touch $@

# Extras that require other releases of the dependencies have separate environments.
.venv-tfq/.complete: $(installed)
	@python=$$(scripts/find-python) && "$$python" scripts/setup.py tfq && touch $@

kernels: ## compile the kernels of simulator statevector_cpu again, for example after the installation of a C compiler
	@# Setup and uv install the package again if this file is newer.
	@touch hatch_build.py && $(MAKE) --no-print-directory setup

run: .venv/.complete ## run the pipeline locally; ARGS="--epochs 10" sets fields of the experiment
	@$(BIN)/qcnn run $(ARGS)

demo-vertex: .venv/.complete ## run the Vertex AI commands against a local server
	@$(BIN)/python -W ignore scripts/vertex_demo.py

test: .venv/.complete ## run the fast tests (tests/durations.json); ARGS="tests/trainer -k order" selects from all tests
	@$(BIN)/pytest $(fast) $(parallel) $(ARGS)

test-all: .venv/.complete ## run the fast and the slow tests
	@$(BIN)/pytest $(parallel) $(ARGS)

# MLflow's server, whose packages only its tests need.
.venv-mlflow/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-mlflow UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen --only-group mlflow-server \
	  --compile-bytecode --python $(BIN)/python && touch $@

test-long: .venv/.complete .venv-mlflow/.complete ## run the long tests: complete runs, killed processes, several workers
	@$(BIN)/pytest -m "long and not faults and not tfq" $(parallel) $(ARGS)

test-complete: .venv/.complete .venv-mlflow/.complete ## run the tests of test-all and test-long together, which share training runs
	@$(BIN)/pytest -m $(complete) $(parallel) $(ARGS)

test-durations: .venv/.complete .venv-mlflow/.complete ## write tests/durations.json; requires an idle machine (half an hour)
	@$(BIN)/pytest --record -m $(complete) $(parallel)

test-tfq: .venv-tfq/.complete ## run the tests with TensorFlow Quantum, in .venv-tfq
	@.venv-tfq/bin/pytest -m tfq $(call tests,tests/qcnn/simulators tests/qcnn/results/test_serving.py tests/trainer)

# The oldest supported releases of the direct dependencies. All others are at most those of uv.lock, because a new
# release of a package must not change the results of a commit. Old releases use functions that the others deprecate.
oldest = --extra run --extra vertex --extra mlflow --extra kubeflow-registry
.venv-oldest/.complete: .venv/.complete
	@mkdir -p build
	@.uv/uv export --quiet --frozen --no-hashes --no-annotate --no-header --no-emit-project $(oldest) --group test \
	  >build/locked.txt
	@sed 's/==/<=/' build/locked.txt >build/at-most.txt
	@.uv/uv pip compile --quiet pyproject.toml $(oldest) --resolution lowest-direct --constraint build/at-most.txt \
	  --python $(BIN)/python --output-file build/oldest.txt >build/oldest.log
	@UV_PYTHON_DOWNLOADS=never .uv/uv venv --quiet --clear --python $(BIN)/python .venv-oldest
	@.uv/uv pip install --quiet --python .venv-oldest/bin/python --constraint build/at-most.txt -r build/oldest.txt --group test
	@.uv/uv pip install --quiet --python .venv-oldest/bin/python --no-deps --editable . && touch $@

test-oldest: .venv-oldest/.complete ## run the fast tests with the oldest supported releases of the dependencies
	@.venv-oldest/bin/pytest -W ignore::DeprecationWarning $(fast) $(parallel) $(ARGS)

test-faults: .venv/.complete ## kill training runs at 60 random times (half an hour)
	@$(BIN)/pytest -m "faults or not faults" $(call tests,tests/components/steps/test_faults.py tests/components/steps/test_faults_of_roles.py)

test-cluster: .venv/.complete ## run the tests on the cluster of KUBECONFIG (requires the image qcnn:latest there)
	@# Three processes, each with a namespace, because most tests wait for pods. ARGS selects tests for one process. Many
	@# failures have one cause, and each may wait for its timeout.
	@$(BIN)/pytest -m $(if $(ARGS),cluster,"cluster and not alone" --numprocesses 3 --dist worksteal --maxfail 3) $(cluster_tests)
	@$(if $(ARGS),,$(BIN)/pytest -m "cluster and alone" $(cluster_tests))

test-kfp: .venv/.complete ## run the tests on the KFP backend at KFP_HOST (requires the image KFP_IMAGE there)
	@$(BIN)/pytest -m kfp $(call tests,tests/kfp tests/test_kfp_backend.py)

# Kubeflow Model Registry, which is published as source and as an image. Its database PostgreSQL is in a Python package.
MODEL_REGISTRY = https://github.com/kubeflow/model-registry
.venv-model-registry/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-model-registry UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen \
	  --only-group model-registry-server --python $(BIN)/python
	@mkdir -p build && rm -rf build/model-registry
	@git -c advice.detachedHead=false clone --quiet --depth 1 --branch v0.3.8 $(MODEL_REGISTRY) build/model-registry
	@cd build/model-registry && go build -buildvcs=false -o ../../.venv-model-registry/bin/model-registry .
	@rm -rf build/model-registry && touch $@

test-model-registry: .venv-model-registry/.complete ## run the tests on a Kubeflow Model Registry, built from MODEL_REGISTRY (requires git and Go)
	@$(BIN)/pytest -m model_registry $(call tests,tests/qcnn/registry)

lint: .venv/.complete ## check style and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/.complete ## check types; the package also for macOS, where Linux-only functions are errors
	@$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin --package qcnn & darwin=$$!; \
	  $(BIN)/mypy && $(BIN)/mypy compile.py scripts/*.py; here=$$?; wait $$darwin && exit $$here

docs: .venv/.complete ## build the documentation into build/site; a broken link is an error
	@$(BIN)/python scripts/reference_tables.py
	@# With --quiet, --strict would ignore warnings.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

compile: .venv/.complete ## compile the pipelines into build/
	@$(BIN)/python compile.py $(ARGS)

image: ## build the image of all steps as qcnn:latest; ARGS="--build-arg BASE_IMAGE=..." sets its base image; EXTRA=gpu adds CUDA libraries, EXTRA=tfq has TensorFlow Quantum
	docker build --tag qcnn:latest$(suffix) $(if $(EXTRA),--build-arg EXTRA=$(EXTRA)) --build-arg QCNN_COMMIT="$$(git rev-parse HEAD)" \
	  --build-arg QCNN_DIRTY="$$(test -z "$$(git status --porcelain --untracked-files=no)" && echo no || echo yes)" $(ARGS) .
	@docker image ls --format '{{.Repository}}:{{.Tag}} {{.Size}}' qcnn:latest$(suffix)

push: ## build the image and push it to REGISTRY, unless IMAGE is an existing image
	@test -n "$(IMAGE)$(REGISTRY)" || { echo "push: requires REGISTRY=HOST/PATH, or IMAGE of an existing image. Given: none" >&2; exit 2; }
	@test -n "$(IMAGE)" || { $(MAKE) --no-print-directory image ARGS="$(BUILD)" && docker tag qcnn:latest$(suffix) $(image) && docker push $(image); }

training: .venv/.complete push ## train as a TFJob with outputs in OUTPUT; ARGS="--qubits 23" sets fields of the experiment
	$(BIN)/qcnn submit --target tfjob --name $(NAME) --output "$(OUTPUT)" $(pods) $(where) $(ARGS)

inference: .venv/.complete ## predict with the model of run NAME; ARGS="--data ... --output ..." predicts a file
	$(BIN)/qcnn predict --target tfjob $(NAME) $(where) $(ARGS)

tensorboard: .venv/.complete push ## deploy TensorBoard on the cluster for run NAME
	$(BIN)/qcnn tensorboard --deploy --job $(NAME) $(pods) $(where) $(ARGS)

delete-training: .venv/.complete ## delete the TFJobs of run NAME; outputs are kept
	$(BIN)/qcnn delete --run $(NAME) --kind TFJob $(where) $(ARGS)

delete-inference: .venv/.complete ## delete the prediction Jobs of run NAME
	$(BIN)/qcnn delete --run $(NAME) --kind Job $(where) $(ARGS)

delete-tensorboard: .venv/.complete ## delete TensorBoard from the cluster
	$(BIN)/qcnn tensorboard --undeploy $(where) $(ARGS)

k8s-demo: .venv/.complete push ## run all Kubernetes targets on the cluster of KUBECONFIG, in a temporary namespace
	@$(BIN)/python scripts/k8s_demo.py --image $(image) $(if $(OUTPUT),--output $(OUTPUT)) $(if $(POD),--pod $(POD))

figures: .venv/.complete ## run the benchmarks that the documentation quotes (about an hour)
	@for name in run_overhead worker_reproducibility workers convergence first_epoch startup_time report logging_cost restarts; do \
	  $(BIN)/python -m benchmarks.$$name || exit 1; \
	done

frameworks: .venv-frameworks/.complete ## install the other frameworks of the simulator benchmark into .venv-frameworks

# A separate environment, because the other frameworks require different releases of NumPy and jax.
.venv-frameworks/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-frameworks UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen --only-group frameworks \
	  --compile-bytecode --python $(BIN)/python && touch $@

simulators: .venv-frameworks/.complete ## benchmark the simulators and other frameworks, and the time to the MSE lower bound (an hour); ARGS="--rows hybrid-8" selects a row of the simulators
	@$(BIN)/python -m benchmarks.simulators $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m benchmarks.own_data)
	@$(if $(ARGS),,$(BIN)/python -m benchmarks.large_states)
	@$(if $(ARGS),,$(BIN)/python -m benchmarks.time_to_bound --plot docs/images/time-to-bound.svg)

.venv-audit/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-audit UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen --only-group audit \
	  --python $(BIN)/python && touch $@

audit: .venv-audit/.complete ## check the images' packages in uv.lock for known vulnerabilities; also fails if the database is unreachable
	@mkdir -p build
	@.uv/uv export --quiet --frozen --no-default-groups --extra run --extra vertex --extra mlflow --extra kubeflow-registry --extra gpu \
	  --prune kfp --prune kfp-kubernetes \
	  --no-emit-project --output-file build/requirements.txt
	@.venv-audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --requirement build/requirements.txt $(ARGS)

sbom: ## copy the SBOM (CycloneDX) of the image qcnn:latest to build/sbom.json
	@mkdir -p build
	@docker run --rm --network none --entrypoint cat qcnn:latest$(suffix) /usr/share/qcnn/sbom.json >build/sbom.json.unfinished
	@mv build/sbom.json.unfinished build/sbom.json

.venv-release/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-release UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen --only-group release \
	  --python $(BIN)/python && touch $@

wheels: .venv-release/.complete ## build and check the sdist and the wheels of a release in build/release
	@$(BIN)/python scripts/release_files.py

release-check: docs .venv-release/.complete ## build and check the files of a release, and test the wheel with each Python and each extra; ARGS="--tag v0.1.0" fails if the release is incomplete
	@$(BIN)/python scripts/release_check.py $(ARGS)

clean: ## delete the environments and build/; runs/ is kept
	rm -rf .venv .venv-frameworks .venv-audit .venv-mlflow .venv-model-registry .venv-release .uv build
