# syntax=docker/dockerfile:1
# For those who build with an engine: it gives the file system and the configuration of
# `make image`, which needs no engine. TestDockerfile in test/image compares the two.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg REVISION=$(git rev-parse HEAD) .
ARG VERSION=v0.1.0
ARG REVISION=""
ARG CREATED=""

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION REVISION
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
COPY pkg pkg
RUN CGO_ENABLED=0 GOFLAGS=-trimpath GOOS=$TARGETOS GOARCH=$TARGETARCH go build -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X main.revision=$REVISION" -o /out/evictd ./cmd/evictd

FROM scratch
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="evictd" \
      org.opencontainers.image.description="An agent for Kubernetes nodes that evicts a pod before memory, disk, inodes or PIDs run out" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/evictd/evictd" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
COPY --from=build --chown=0:0 --chmod=0755 /out/evictd /evictd
USER 64535:64535
ENTRYPOINT ["/evictd"]
