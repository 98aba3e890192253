# Alertmanager of the demo and of the tests, from Debian, under the name that upstream's image gives it.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends prometheus-alertmanager ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/bin/prometheus-alertmanager /bin/alertmanager
ENV LANG=C.UTF-8
USER 65532:65532
WORKDIR /alertmanager
ENTRYPOINT ["/bin/alertmanager"]
