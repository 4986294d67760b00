package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/test/cluster"
)

const (
	// user is evictd's own user and group. No other pod should run as it, so that evictd shares
	// nothing with other pods. deploy/daemonset.yaml and the Dockerfile have the same.
	user = "64535:64535"
	// path is that of the binary in the image, and its entrypoint.
	path = "/evictd"
)

// release is what an image says of itself.
type release struct {
	ref      string // the name of the image with its tag
	version  string // of evictd
	revision string // the commit; empty if it is not known
	// created is the time of the commit, not of the build: two builds give the same image.
	created time.Time
}

// labels returns the image's labels, with the keys of the OCI image specification.
func (r release) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "evictd",
		"org.opencontainers.image.description": "An agent for Kubernetes nodes that evicts a pod before memory, disk, inodes or PIDs run out",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/evictd/evictd",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.created":     r.created.UTC().Format(time.RFC3339),
	}
	if r.revision != "" {
		labels["org.opencontainers.image.revision"] = r.revision
	}
	return labels
}

// writeArchive writes the image of a binary as a docker-archive, for the platform that the
// binary is built for.
func writeArchive(target, binary string, r release) error {
	if target == "" || r.ref == "" || r.version == "" {
		return errors.New("writing the image: name its --output, its --ref and its --version")
	}
	_, platform, err := built(binary)
	if err != nil {
		return err
	}
	architecture, linux := strings.CutPrefix(platform, "linux/")
	if !linux {
		return fmt.Errorf("%s is built for %s: an image needs a binary for Linux", binary, platform)
	}
	return cluster.WriteImage(target, r.ref, map[string]string{path: binary}, cluster.ImageConfig{
		Entrypoint: []string{path}, User: user, Labels: r.labels(), Architecture: architecture, Created: r.created,
	})
}

// built returns what a Go program records of its build, and the platform that it is built for as
// os/architecture. It fails if the file is not a Go program.
func built(binary string) (info *buildinfo.BuildInfo, platform string, err error) {
	info, err = buildinfo.ReadFile(binary)
	if err != nil {
		return nil, "", fmt.Errorf("reading the build of %s: %w", binary, err)
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	return info, settings["GOOS"] + "/" + settings["GOARCH"], nil
}
