# The sandbox's server with the libraries that it needs, at the versions of the lock; nothing that trains models.
# From the repository's root: docker build --file sandbox/image/server.Dockerfile --tag optimrl-sandbox-server:1 .
FROM python:3.11-slim
COPY requirements.lock /app/
RUN pip install --no-cache-dir --constraint /app/requirements.lock docker fastapi prometheus-client uvicorn
# What outlives a container: the probes' first seconds.
RUN install --directory --owner=10001 --group=10001 /state
VOLUME /state
COPY sandbox /app/sandbox
WORKDIR /app
# Not root. The server starts programs through an engine's socket, which whoever runs this image mounts and whose group
# it adds; that the socket is as good as root on the engine's machine is why programs never see it.
USER 10001:10001
EXPOSE 8080
ENTRYPOINT ["python", "-m", "sandbox.server", "--address=0.0.0.0", "--port=8080"]
CMD ["--baseline=/state/baseline.json"]
