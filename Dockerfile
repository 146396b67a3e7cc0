# Penstock in a container: small, without root, and with a root file system that can be read-only.
#   docker build -t penstock .
#   docker run --read-only --tmpfs /tmp -v penstock:/var/lib/penstock -p 127.0.0.1:5151:5151 penstock
# docs/guides/deploy.md has the rest. The suite runs on Python 3.11, so the image has it too.
FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements/build.txt requirements/server.txt requirements/
# Pinned, with hashes, and nothing is compiled. The build backend has an environment of its own.
RUN python -m venv /build/tools \
    && /build/tools/bin/pip install --require-hashes --only-binary :all: -r requirements/build.txt \
    && python -m venv /srv/penstock \
    && /srv/penstock/bin/pip install --require-hashes --only-binary :all: -r requirements/server.txt
COPY LICENSE README.md pyproject.toml ./
COPY src src
RUN /build/tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /srv/penstock/bin/pip install --no-deps dist/*.whl \
    && /srv/penstock/bin/python -m pip uninstall --yes pip setuptools

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/penstock --shell /usr/sbin/nologin penstock \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/penstock /var/lib/penstock-backups
COPY --from=build /srv/penstock /srv/penstock
# 0.0.0.0 is the address inside the container: publish the port only where you want it. The first start makes no key there.
ENV PATH=/srv/penstock/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PENSTOCK_DB=/var/lib/penstock/penstock.db \
    PENSTOCK_SERVER_HOST=0.0.0.0
USER 10001:10001
WORKDIR /var/lib/penstock
VOLUME ["/var/lib/penstock", "/var/lib/penstock-backups"]
EXPOSE 5151
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5151/readyz', timeout=4)"]
ENTRYPOINT ["penstock"]
CMD ["serve", "--json"]
