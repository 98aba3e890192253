# A user's image, as they are: MindSpore for CPU and a training program, nothing of Rankbeat.
# Its packages are found by an image-level PYTHONPATH, which an env entry in the pod would replace.
# Build from the repository root: docker build -f dev/images/trainer.Dockerfile .
FROM python:3.11-slim-bookworm AS packages
COPY requirements/mindspore.txt /requirements/
RUN pip install --no-cache-dir --only-binary :all: --require-hashes --target /opt/site \
    -r /requirements/mindspore.txt \
    && cd /opt/site \
    && rm -rf bin \
        mindspore/include \
        mindspore/_akg \
        mindspore/lib/plugin/cpu \
        mindspore/lib/plugin/gpu* \
        mindspore/lib/plugin/ascend \
        mindspore/lib/plugin/libmindspore_gpu* \
        mindspore/lib/plugin/libmindspore_ascend* \
        mindspore/lib/plugin/libmindspore_ops_ascend.so

FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/local/bin/python3 /usr/bin/python3
COPY --from=packages /opt/site /opt/site
COPY dev/images/trainer/msrun /usr/local/bin/msrun
COPY dev/images/trainer/train.py /opt/train/train.py
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/site
USER 65532:65532
WORKDIR /tmp
