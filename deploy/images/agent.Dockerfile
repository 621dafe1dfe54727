# A site's agent. `make bundle` first; then, in the checkout: docker build -f deploy/images/agent.Dockerfile -t selat-agent .
# A digest pins more than a point release: --build-arg BASE=debian@sha256:...
ARG BASE=debian:12.11-slim
FROM ${BASE}

# Packages are those of the base's release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends iperf3 python3 \
    && rm -rf /var/lib/apt/lists/*

# The same bundle, script and entry point as on a machine with systemd.
ADD dist/selat-bundle.tar.gz /opt/selat/releases/
RUN SELAT_UID=10001 /opt/selat/releases/selat-bundle/start install \
    && install -d -o selat -g selat -m 700 /var/lib/selat /var/lib/selat/agent

ENV HOME=/var/lib/selat/agent \
    SELAT_RUN=/tmp \
    SELAT_LISTEN=0.0.0.0:7411
USER 10001:10001
WORKDIR /
VOLUME /var/lib/selat/agent
EXPOSE 7411
HEALTHCHECK --interval=5s --timeout=5s --start-period=120s CMD ["/opt/selat/current/selat-member", "ready", "agent"]
ENTRYPOINT ["/opt/selat/current/selat-member", "agent"]
