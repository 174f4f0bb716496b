# The learner for NVIDIA GPUs: the locked versions, and JAX with its own CUDA 13 libraries; the host needs only its driver.
# From the repository's root: docker build --file docs/deploy/train.Dockerfile --tag optimrl-train:1 .
# Start: docker run --gpus all --shm-size 16g -v /data:/data -w /data optimrl-train:1 optimrl-train --help
FROM python:3.11-slim
# Some dependencies build small parts in C where no wheel fits.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /app/
RUN pip install --no-cache-dir --constraint /app/requirements.lock "jax[cuda13]" -r /app/requirements.lock
COPY pyproject.toml setup.py README.md LICENSE NOTICE /app/
COPY sandbox /app/sandbox
COPY beam_pipelines /app/beam_pipelines
COPY optimrl_jax /app/optimrl_jax
COPY configs /app/configs
RUN pip install --no-cache-dir --no-deps --no-build-isolation /app
# Compiled programs are kept in the workdir; memory is taken as it is needed where a machine is shared.
ENV XLA_PYTHON_CLIENT_MEM_FRACTION=0.92
RUN useradd --create-home --uid 10001 trainer
USER 10001:10001
WORKDIR /home/trainer
CMD ["optimrl-train", "--help"]
