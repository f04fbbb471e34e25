# Any image with Python 3.11 or newer, glibc and tables of time zones will do; a mirror or a base of one's own is named
# here. Works with BuildKit and with Docker's older builder.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
# Of a machine that doesn't use the public package index; nothing of it is left in the image.
ARG PIP_INDEX_URL
ARG PIP_CERT
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python3 -m venv /opt/fleetagent
# The dependencies first: they change less often than the code. Compiled here, since nothing can be written at run time;
# by hash, so that it is valid whatever happens to the files' dates.
COPY requirements.lock image/build.lock ./
RUN /opt/fleetagent/bin/pip install --require-hashes --only-binary=:all: --no-compile -r requirements.lock \
 && /opt/fleetagent/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/fleetagent/lib \
 && python3 -m venv /build \
 && /build/bin/pip install --require-hashes --only-binary=:all: --no-compile -r build.lock
COPY pyproject.toml README.md LICENSE ./
COPY operator/ operator/
# Without isolation: what builds the wheel is locked too, and not fetched as of today.
RUN /build/bin/pip wheel --no-build-isolation --no-deps --wheel-dir /wheel . \
 && /opt/fleetagent/bin/pip install --no-deps --no-compile /wheel/*.whl \
 && /opt/fleetagent/bin/python -m compileall -q --invalidation-mode unchecked-hash \
      /opt/fleetagent/lib/python3.*/site-packages/fleetagent \
 && /opt/fleetagent/bin/pip uninstall --quiet --yes pip setuptools

FROM ${PYTHON_IMAGE}
# The last one: tiktoken's vocabulary is in the image, and a copy of it in a temporary folder would need such a folder.
ENV PATH=/opt/fleetagent/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 TIKTOKEN_CACHE_DIR=
COPY --from=build /opt/fleetagent /opt/fleetagent
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# Not /tmp, which need not be there.
WORKDIR /
# 8080 metrics, 8081 health, 8082 workers
EXPOSE 8080 8081 8082
ENTRYPOINT ["fleetagent"]
CMD ["operator"]
