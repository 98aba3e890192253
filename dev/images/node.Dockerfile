# What runs on nodes: python -m rankbeat_collector, python -m rankbeat_exporter.
# Build from the repository root: docker build -f dev/images/node.Dockerfile .
FROM python:3.11-slim-bookworm AS packages
COPY requirements/collector.txt requirements/exporter.txt /requirements/
RUN pip install --no-cache-dir --only-binary :all: --require-hashes --target /opt/site \
    -r /requirements/collector.txt -r /requirements/exporter.txt

FROM python:3.11-slim-bookworm
COPY --from=packages /opt/site /opt/site
COPY agent/rankbeat_collector /opt/rankbeat/rankbeat_collector
COPY node_exporter/rankbeat_exporter /opt/rankbeat/rankbeat_exporter
COPY agent/rankbeat_serving /opt/rankbeat/rankbeat_serving
COPY agent/rankbeat_contract /opt/rankbeat/rankbeat_contract
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/rankbeat:/opt/site
USER 65532:65532
WORKDIR /
