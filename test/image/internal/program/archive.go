// Package program knows evictd's binary and the image of it for one platform: its files, its
// user and its labels. The same binary and release give the same bytes.
package program

import (
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/test/cluster"
)

// User is evictd's own user and group. No other pod should run as it, so that evictd shares
// nothing with other pods. deploy/daemonset.yaml and the Dockerfile have the same.
const User = "64535:64535"

// Path is the path of the binary in the image, and its entrypoint.
const Path = "/evictd"

// Release is what an image says of itself.
type Release struct {
	// Ref is the name of the image with its tag.
	Ref string
	// Version is the version of evictd.
	Version string
	// Revision is the commit; empty if it is not known.
	Revision string
	// Created is the time of the commit, not of the build: two builds give the same image.
	Created time.Time
}

// Labels returns the image's labels, with the keys of the OCI image specification.
func (r Release) Labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "evictd",
		"org.opencontainers.image.description": "An agent for Kubernetes nodes that evicts a pod before memory, disk, inodes or PIDs run out",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/evictd/evictd",
		"org.opencontainers.image.version":     r.Version,
		"org.opencontainers.image.created":     r.Created.UTC().Format(time.RFC3339),
	}
	if r.Revision != "" {
		labels["org.opencontainers.image.revision"] = r.Revision
	}
	return labels
}

// WriteArchive writes the image of a binary as a docker-archive, for the platform that the
// binary is built for.
func WriteArchive(target, binary string, r Release) error {
	if r.Ref == "" || r.Version == "" {
		return errors.New("writing the image: name its --ref and its --version")
	}
	b, err := Read(binary)
	if err != nil {
		return err
	}
	if b.OS != "linux" {
		return fmt.Errorf("%s is built for %s: an image needs a binary for Linux", binary, b.Platform())
	}
	return cluster.WriteImage(target, r.Ref, map[string]string{Path: binary}, cluster.ImageConfig{
		Entrypoint: []string{Path}, User: User, Labels: r.Labels(),
		Architecture: b.Architecture, Created: r.Created,
	})
}
