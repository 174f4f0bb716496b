# What Dataflow starts a template's jobs from: the worker's image, Dataflow's launcher, and what submits a job.
# From the repository's root, after the worker's image:
#   docker build --file beam_pipelines/image/launcher.Dockerfile --build-arg WORKER=optimrl-worker:1 --tag optimrl-launcher:1 .
ARG WORKER=optimrl-worker:1
FROM gcr.io/dataflow-templates-base/python311-template-launcher-base AS launcher
FROM ${WORKER}
COPY --from=launcher /opt/google/dataflow/python_template_launcher /opt/google/dataflow/python_template_launcher
RUN pip install --no-cache-dir --constraint /app/requirements.lock "apache-beam[gcp]"
COPY beam_pipelines/image/launch.py /app/launch.py
ENV FLEX_TEMPLATE_PYTHON_PY_FILE=/app/launch.py
ENTRYPOINT ["/opt/google/dataflow/python_template_launcher"]
