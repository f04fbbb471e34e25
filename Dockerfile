# Any image with Python 3.11 or newer and glibc will do; a mirror or a self-made base is named here.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python3 -m venv /opt/fleetagent
# The dependencies first: they change less often than the code.
COPY requirements.lock ./
RUN /opt/fleetagent/bin/pip install --require-hashes --only-binary=:all: --no-compile -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY operator/ operator/
RUN /opt/fleetagent/bin/pip install --no-deps --no-compile . \
 && /opt/fleetagent/bin/pip uninstall --yes pip setuptools \
 # Compiled here, since nothing can be written at run time. Hash-based: valid whatever happens to the files' dates.
 && /opt/fleetagent/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/fleetagent/lib

FROM ${PYTHON_IMAGE}
ENV PATH=/opt/fleetagent/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/fleetagent /opt/fleetagent
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /tmp
# 8081 health, 8082 workers; at 8080 (page, API, metrics) nothing is served yet
EXPOSE 8081 8082
ENTRYPOINT ["fleetagent"]
CMD ["operator"]
