# The trainer without its packages: mount a folder of them (build/images.json names it) at /opt/site.
# Build from the repository root: docker build -f dev/images/trainer-base.Dockerfile .
FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/local/bin/python3 /usr/bin/python3
COPY dev/images/trainer/msrun /usr/local/bin/msrun
COPY dev/images/trainer/train.py /opt/train/train.py
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/site
USER 65532:65532
WORKDIR /tmp
