# The aggregator: python -m rankbeat_aggregator.
# Build from the repository root: docker build -f dev/images/aggregator.Dockerfile .
FROM python:3.11-slim-bookworm AS packages
COPY requirements/aggregator.txt /requirements/
RUN pip install --no-cache-dir --only-binary :all: --require-hashes --target /opt/site \
    -r /requirements/aggregator.txt

FROM python:3.11-slim-bookworm
COPY --from=packages /opt/site /opt/site
COPY aggregator/rankbeat_aggregator /opt/rankbeat/rankbeat_aggregator
COPY agent/rankbeat_contract /opt/rankbeat/rankbeat_contract
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/rankbeat:/opt/site
USER 65532:65532
WORKDIR /
