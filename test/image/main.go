// Command image writes evictd's container image as a docker-archive: one layer
// with one static binary, no shell, no libc, no Docker engine needed to build it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/evictd/evictd/test/cluster"
)

// user is evictd's own user and group: no other pod should run as it, so that it
// shares nothing with anybody. deploy/daemonset.yaml says the same.
const user = "64535:64535"

func main() {
	binary := flag.String("binary", "bin/evictd", "the static binary")
	tag := flag.String("tag", "", "the image's tag")
	output := flag.String("output", "bin/evictd-image.tar", "the docker-archive to write")
	flag.Parse()
	if err := write(*binary, *tag, *output); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(binary, tag, output string) error {
	if tag == "" {
		return fmt.Errorf("writing %s: name a --tag", output)
	}
	return cluster.WriteImage(output, "evictd/evictd:"+tag, map[string]string{"/evictd": binary}, cluster.ImageConfig{
		Entrypoint: []string{"/evictd"},
		User:       user,
		Labels: map[string]string{
			"org.opencontainers.image.title":    "evictd",
			"org.opencontainers.image.source":   "https://github.com/evictd/evictd",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	})
}
