# Prometheus of the demo and of the tests, from Debian.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends prometheus ca-certificates \
    && rm -rf /var/lib/apt/lists/*
ENV LANG=C.UTF-8
USER 65532:65532
WORKDIR /prometheus
ENTRYPOINT ["/bin/prometheus"]
