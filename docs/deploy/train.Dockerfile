# The learner for NVIDIA GPUs: the locked versions, and JAX with its own CUDA 13 libraries; the host needs only its driver.
# From the repository's root: docker build --file docs/deploy/train.Dockerfile --tag optimrl-train:1 .
# For a TPU add --build-arg JAX="jax[tpu]", for machines without an accelerator --build-arg JAX=jax.
# Start: docker run --gpus all --shm-size 16g -v /data:/data -w /data optimrl-train:1 optimrl-train --help
FROM python:3.11-slim
ARG JAX="jax[cuda13]"
# Gigabytes, in a layer of their own that a change of the package leaves alone.
COPY requirements.lock /app/
RUN pip install --no-cache-dir --constraint /app/requirements.lock "$JAX"
COPY pyproject.toml setup.py README.md LICENSE NOTICE /app/
COPY sandbox /app/sandbox
COPY beam_pipelines /app/beam_pipelines
COPY optimrl_jax /app/optimrl_jax
COPY configs /app/configs
RUN pip install --no-cache-dir --constraint /app/requirements.lock "/app[learner]"
# JAX takes this share of a GPU's memory at its start.
ENV XLA_PYTHON_CLIENT_MEM_FRACTION=0.92
RUN useradd --create-home --uid 10001 trainer
USER 10001:10001
WORKDIR /home/trainer
CMD ["optimrl-train", "--help"]
