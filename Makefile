# Bare `make` prints the targets.
BIN := .venv/bin
ARGS ?=
# What the targets of the tutorial work on: a registry to push to, and BUILD for more words of docker build, or IMAGE for
# one that the cluster has already; where trainings write; POD for a file with the settings of pods; NAMESPACE for another
# one than the context's.
REGISTRY ?=
# Of a changed tree another one with each change: nodes keep what they have under a tag.
TAG ?= $(shell git rev-parse --short=12 HEAD)$(shell git diff --quiet HEAD || echo "-$$(git diff HEAD | git hash-object --stdin | cut -c1-8)")
image = $(if $(IMAGE),$(IMAGE),$(REGISTRY)/qcnn:$(TAG))
NAME = qcnn
OUTPUT =
pods = --image $(image) $(if $(POD),--pod $(POD))
where = $(if $(NAMESPACE),--namespace $(NAMESPACE))
# Two processes share the tests, those of a file together, and take 5 GB each; a few tests are sooner done by one. Files
# keep their order: by the number of their tests the longest of all, which have one, would come last.
parallel = $(if $(ARGS),,--numprocesses logical --maxprocesses 2 --dist loadfile --no-loadscope-reorder)
# Tests by their path, of ARGS if it names any, else those of the target.
tests = $(if $(filter tests/%,$(ARGS)),,$(1)) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup run demo-vertex push training inference tensorboard delete-training delete-inference \
  delete-tensorboard k8s-demo test test-long test-faults test-cluster test-kfp lint types docs compile image figures \
  peers simulators audit sbom release-check clean

help: ## print the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r target text; do printf '  make %-18s %s\n' "$$target" "$$text"; done

setup: .venv/.complete ## install everything into .venv (the other targets do it by themselves)

.venv/.complete: uv.lock pyproject.toml scripts/setup.py
	@python=$$(scripts/find-python) && "$$python" scripts/setup.py && touch $@

run: .venv/.complete ## run the main job on this machine; ARGS="--epochs 10" changes the experiment
	@$(BIN)/qcnn run $(ARGS)

demo-vertex: .venv/.complete ## run an experiment on a local stand-in of Vertex AI, by the commands for it
	@$(BIN)/python -W ignore scripts/vertex_demo.py

test: .venv/.complete ## run the tests; ARGS="tests/trainer -k order" picks some
	@$(BIN)/pytest $(parallel) $(ARGS)

test-long: .venv/.complete ## run the tests of whole runs, kills and pairs of workers
	@$(BIN)/pytest -m "long and not faults" $(parallel) $(ARGS)

test-faults: .venv/.complete ## kill the training at 60 random moments (half an hour)
	@$(BIN)/pytest -m "faults or not faults" $(call tests,tests/components/steps/test_faults.py tests/components/steps/test_faults_of_roles.py)

test-cluster: .venv/.complete ## run the tests on the cluster of KUBECONFIG, which must have the image qcnn:latest
	@$(BIN)/pytest -m cluster $(call tests,tests/cluster tests/qcnn/jobs/test_apiserver.py)

test-kfp: .venv/.complete ## run the tests on the Kubeflow backend at KFP_HOST, whose cluster must have the image KFP_IMAGE
	@$(BIN)/pytest -m kfp $(call tests,tests/kfp tests/test_backend.py)

lint: .venv/.complete ## check style and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/.complete ## check types, of the package on macOS too: what only Linux has is an error there
	@$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin --package qcnn & darwin=$$!; \
	  $(BIN)/mypy && $(BIN)/mypy compile.py scripts/*.py; here=$$?; wait $$darwin && exit $$here

docs: .venv/.complete ## build docs/ as a site into build/site; a link that leads nowhere is an error
	@$(BIN)/python scripts/reference_tables.py
	@# With --quiet it would not count warnings.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

compile: .venv/.complete ## compile the pipeline into build/
	@$(BIN)/python compile.py $(ARGS)

image: ## build the image of every step as qcnn:latest; ARGS="--build-arg BASE_IMAGE=..." changes its base
	docker build --tag qcnn:latest --build-arg QCNN_COMMIT="$$(git rev-parse HEAD)" \
	  --build-arg QCNN_DIRTY="$$(test -z "$$(git status --porcelain --untracked-files=no)" && echo no || echo yes)" $(ARGS) .
	@docker image ls --format '{{.Repository}}:{{.Tag}} {{.Size}}' qcnn:latest

push: ## build the image and push it to REGISTRY, unless IMAGE names one that the cluster has
	@test -n "$(IMAGE)$(REGISTRY)" || { echo "push: needs REGISTRY=HOST/PATH to push to, or IMAGE=... that is there. Given: none" >&2; exit 2; }
	@test -n "$(IMAGE)" || { $(MAKE) --no-print-directory image ARGS="$(BUILD)" && docker tag qcnn:latest $(image) && docker push $(image); }

training: .venv/.complete push ## train as a TFJob that writes to OUTPUT; ARGS="--qubits 23" changes the experiment
	$(BIN)/qcnn submit --target tfjob --name $(NAME) --output "$(OUTPUT)" $(pods) $(where) $(ARGS)

inference: .venv/.complete ## predict with what NAME has trained; ARGS="--data ... --output ..." predicts a file
	$(BIN)/qcnn predict --target tfjob $(NAME) $(where) $(ARGS)

tensorboard: .venv/.complete push ## let TensorBoard run on the cluster, on the logs of NAME
	$(BIN)/qcnn tensorboard --deploy --job $(NAME) $(pods) $(where) $(ARGS)

delete-training: .venv/.complete ## delete the TFJobs of NAME; what they have written stays
	$(BIN)/qcnn delete --run $(NAME) --kind TFJob $(where) $(ARGS)

delete-inference: .venv/.complete ## delete the Jobs that predict with what NAME has trained
	$(BIN)/qcnn delete --run $(NAME) --kind Job $(where) $(ARGS)

delete-tensorboard: .venv/.complete ## delete the TensorBoard on the cluster
	$(BIN)/qcnn tensorboard --undeploy $(where) $(ARGS)

k8s-demo: .venv/.complete push ## all of these on the cluster of KUBECONFIG, in a namespace that is deleted in the end
	@$(BIN)/python scripts/k8s_demo.py --image $(image) $(if $(OUTPUT),--output $(OUTPUT)) $(if $(POD),--pod $(POD))

figures: .venv/.complete ## measure what the documents quote (about an hour)
	@for name in main_job worker_equality workers arrival first_epoch wait report logging_cost restarts; do \
	  $(BIN)/python -m benchmarks.$$name || exit 1; \
	done

peers: .venv-peers/.complete ## install what the simulators are compared with into .venv-peers

# Each group in an environment of its own: the two want different releases of NumPy and jax.
.venv-peers/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-peers UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen --only-group peers \
	  --compile-bytecode --python $(BIN)/python && touch $@

simulators: .venv-peers/.complete ## measure the simulators and the time to the floor beside their peers (an hour); ARGS="--rows hybrid-8" measures a row of the simulators
	@$(BIN)/python -m benchmarks.simulators $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m benchmarks.time_to_floor --plot docs/images/floor.svg)

.venv-audit/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-audit UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen --only-group audit \
	  --python $(BIN)/python && touch $@

audit: .venv-audit/.complete ## look for what is known to be vulnerable of what uv.lock names for the image; fails if any is, or if the database does not answer
	@mkdir -p build
	@.uv/uv export --quiet --frozen --no-default-groups --extra run --extra vertex --prune kfp --prune kfp-kubernetes \
	  --no-emit-project --output-file build/requirements.txt
	@.venv-audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --requirement build/requirements.txt $(ARGS)

sbom: ## copy the list of what the image qcnn:latest holds (CycloneDX) to build/sbom.json
	@mkdir -p build
	@docker run --rm --network none --entrypoint cat qcnn:latest /usr/share/qcnn/sbom.json >build/sbom.json.unfinished
	@mv build/sbom.json.unfinished build/sbom.json

.venv-release/.complete: .venv/.complete
	@UV_PROJECT_ENVIRONMENT=.venv-release UV_PYTHON_DOWNLOADS=never .uv/uv sync --quiet --frozen --only-group release \
	  --python $(BIN)/python && touch $@

release-check: docs .venv-release/.complete ## build the sdist and the wheel, and try the wheel with each Python and each extra; ARGS="--tag v0.1.0" fails if the release is not complete
	@$(BIN)/python scripts/release_check.py $(ARGS)

clean: ## remove the environments and what was compiled; runs/ stays
	rm -rf .venv .venv-peers .venv-audit .venv-release .uv build
