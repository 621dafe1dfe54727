# The command `selat`. `make bundle` first; then, in the checkout: docker build -f deploy/images/client.Dockerfile -t selat-client .
# A digest pins more than a point release: --build-arg BASE=debian@sha256:...
ARG BASE=debian:12.11-slim
FROM ${BASE}

# Packages are those of the base's release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*

ADD dist/selat-bundle.tar.gz /opt/selat/releases/
RUN SELAT_UID=10001 /opt/selat/releases/selat-bundle/start install

ENV HOME=/tmp
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["/usr/local/bin/selat"]
