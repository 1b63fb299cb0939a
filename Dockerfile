# One image for every step of the pipeline: docker build -t qcnn .
# It has no CUDA libraries: TensorFlow sees no GPU in it, and processes whose job requests GPUs end at once.
# For linux/amd64 and linux/arm64: the lock file says what is installed on each.
# For a release its base is named by its digest: --build-arg BASE_IMAGE=python:3.11-slim@sha256:...
ARG BASE_IMAGE=python:3.11-slim

# What is to be installed, as files whose content decides whether the next stage runs again.
FROM ${BASE_IMAGE} AS requirements
WORKDIR /build
COPY pyproject.toml uv.lock ./
RUN pip install --no-cache-dir --root-user-action ignore "$(sed -n 's/^bootstrap = \["\(.*\)"\]$/\1/p' pyproject.toml)"
# Steps are called by another kfp than the one that compiles. Left out, too, is what no code of ours or theirs imports:
# 0.5 GB that only the package index knows a reason for.
RUN uv export --quiet --frozen --no-default-groups --extra run --extra vertex --prune kfp --prune kfp-kubernetes \
      --no-emit-project \
      --no-emit-package jax --no-emit-package jaxlib --no-emit-package libclang --output-file requirements.txt \
 && uv export --quiet --frozen --only-group executor | sed -n '/^kfp==/,/[^\\]$/p' > kfp.txt \
 && uv export --quiet --frozen --only-group audit --output-file audit.txt

FROM ${BASE_IMAGE} AS dependencies
COPY --from=requirements /build/requirements.txt /build/kfp.txt /build/
# Of kfp the image runs the executor, which needs nothing else. TensorFlow's headers are for compilers.
RUN python -m venv --without-pip /opt/venv \
 && pip --python /opt/venv/bin/python install --no-cache-dir --no-deps --require-hashes \
      -r /build/requirements.txt -r /build/kfp.txt \
 && rm -rf /opt/venv/lib/python3*/site-packages/tensorflow/include

# What is installed, as a list for those who look for what is vulnerable.
FROM ${BASE_IMAGE} AS contents
COPY --from=requirements /build/audit.txt /build/pyproject.toml /build/
RUN python -m venv /opt/audit \
 && /opt/audit/bin/pip install --no-cache-dir --no-deps --require-hashes -r /build/audit.txt
COPY --from=dependencies /opt/venv /opt/venv
RUN /opt/audit/bin/cyclonedx-py environment --pyproject /build/pyproject.toml --output-reproducible \
      --output-format JSON --output-file /build/sbom.json /opt/venv

FROM ${BASE_IMAGE} AS project
RUN pip install --no-cache-dir --root-user-action ignore hatchling
WORKDIR /build
COPY . .
RUN pip install --no-cache-dir --root-user-action ignore --no-deps --no-build-isolation --target /opt/qcnn . \
 && cp -r uv.lock examples /opt/qcnn/

FROM ${BASE_IMAGE}
# Nothing here makes anybody another user.
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=project /opt/qcnn /opt/qcnn
COPY --from=contents /build/sbom.json /usr/share/qcnn/sbom.json
# Nothing is written but below /tmp.
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/qcnn PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
WORKDIR /opt/qcnn
USER 10001:10001
ARG QCNN_COMMIT=unknown
ARG QCNN_DIRTY=unknown
ENV QCNN_COMMIT=${QCNN_COMMIT} QCNN_DIRTY=${QCNN_DIRTY}
