# The operator and its admission webhook: python -m rankbeat_operator, python -m rankbeat_webhook.
# Build from the repository root: docker build -f dev/images/operator.Dockerfile .
FROM python:3.11-slim-bookworm AS packages
COPY requirements/operator.txt requirements/webhook.txt /requirements/
RUN pip install --no-cache-dir --only-binary :all: --require-hashes --target /opt/site \
    -r /requirements/operator.txt -r /requirements/webhook.txt

FROM python:3.11-slim-bookworm
COPY --from=packages /opt/site /opt/site
COPY operator/rankbeat_operator /opt/rankbeat/rankbeat_operator
COPY operator/rankbeat_webhook /opt/rankbeat/rankbeat_webhook
COPY agent/rankbeat_agent /opt/rankbeat/rankbeat_agent
COPY agent/rankbeat_contract /opt/rankbeat/rankbeat_contract
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/rankbeat:/opt/site
USER 65532:65532
WORKDIR /
