# Image of all pipeline steps: docker build -t qcnn .
# The image for GPUs also has the extra gpu, the CUDA libraries (linux/amd64): docker build --build-arg EXTRA=gpu -t
# qcnn:latest-gpu . Without it TensorFlow detects no GPU, and processes whose job requests GPUs fail immediately.
# Platforms: linux/amd64 and linux/arm64. The lock file has the packages of each.
# The image for simulator tfq has the extra tfq instead (linux/amd64, without the client of Vertex AI):
# docker build --build-arg EXTRA=tfq -t qcnn:latest-tfq .
# A release pins the base image by its digest: --build-arg BASE_IMAGE=python:3.11-slim@sha256:...
ARG BASE_IMAGE=python:3.11-slim

# Lists of the packages to install. The next stage is rebuilt only if their content changes.
FROM ${BASE_IMAGE} AS requirements
ARG EXTRA=
WORKDIR /build
COPY pyproject.toml uv.lock ./
RUN pip install --no-cache-dir --root-user-action ignore "$(sed -n 's/^bootstrap = \["\(.*\)"\]$/\1/p' pyproject.toml)"
# Steps need only the executor of kfp, without its dependencies. libclang is a dependency that
# no code in the image imports.
RUN case "$EXTRA" in \
      tfq) extras="--extra tfq" ;; \
      *) extras="--extra run --extra vertex --extra mlflow --extra kubeflow-registry ${EXTRA:+--extra $EXTRA}" ;; \
    esac \
 && uv export --quiet --frozen --no-default-groups $extras --prune kfp --prune kfp-kubernetes --no-emit-project \
      --no-emit-package libclang --output-file requirements.txt \
 && uv export --quiet --frozen --no-default-groups $extras | sed -n '/^kfp==/,/[^\\]$/p' > kfp.txt \
 && uv export --quiet --frozen --only-group audit --output-file audit.txt

FROM ${BASE_IMAGE} AS dependencies
ARG EXTRA=
COPY --from=requirements /build/requirements.txt /build/kfp.txt /build/
# The image needs only the executor of kfp, which has no dependencies. TensorFlow's headers are only for compilers.
RUN python -m venv --without-pip /opt/venv \
 && pip --python /opt/venv/bin/python install --no-cache-dir --no-deps --require-hashes \
      -r /build/requirements.txt -r /build/kfp.txt \
 && rm -rf /opt/venv/lib/python3*/site-packages/tensorflow/include
RUN test "$EXTRA" != tfq || test -d /opt/venv/lib/python3*/site-packages/tensorflow_quantum \
 || { echo "EXTRA: tfq has no package for this architecture. Given: $(uname -m)"; exit 1; }

# SBOM of the installed packages.
FROM ${BASE_IMAGE} AS contents
COPY --from=requirements /build/audit.txt /build/pyproject.toml /build/
RUN python -m venv /opt/audit \
 && /opt/audit/bin/pip install --no-cache-dir --no-deps --require-hashes -r /build/audit.txt
COPY --from=dependencies /opt/venv /opt/venv
RUN /opt/audit/bin/cyclonedx-py environment --pyproject /build/pyproject.toml --output-reproducible \
      --output-format JSON --output-file /build/sbom.json /opt/venv

FROM ${BASE_IMAGE} AS project
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev
RUN pip install --no-cache-dir --root-user-action ignore hatchling
WORKDIR /build
COPY . .
RUN pip install --no-cache-dir --root-user-action ignore --no-deps --no-build-isolation --target /opt/qcnn . \
 && test -f /opt/qcnn/qcnn/simulators/kernels/statevector.so \
 && cp -r uv.lock examples /opt/qcnn/

FROM ${BASE_IMAGE}
# Removes setuid and setgid bits, so that no program changes the user.
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=project /opt/qcnn /opt/qcnn
COPY --from=contents /build/sbom.json /usr/share/qcnn/sbom.json
# Processes write only to /tmp.
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/qcnn PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
# GKE mounts the driver's libraries into this folder (cloud.google.com/kubernetes-engine/docs/how-to/gpus). TensorFlow
# finds those of the extra gpu, ptxas and libdevice in site-packages/nvidia itself.
ARG EXTRA=
ENV LD_LIBRARY_PATH=${EXTRA:+/usr/local/nvidia/lib64}
WORKDIR /opt/qcnn
USER 10001:10001
ARG QCNN_COMMIT=unknown
ARG QCNN_DIRTY=unknown
ENV QCNN_COMMIT=${QCNN_COMMIT} QCNN_DIRTY=${QCNN_DIRTY}
