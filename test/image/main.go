// Command image writes evictd's container image as a docker-archive: one layer
// with one static binary, no shell, no libc, no Docker engine needed to build it.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"

	"github.com/evictd/evictd/test/cluster"
)

// user is evictd's own user and group. No other pod should run as it, so that evictd shares
// nothing with other pods. deploy/daemonset.yaml has the same.
const user = "64535:64535"

func main() {
	binary := flag.String("binary", "bin/evictd", "the static binary")
	tag := flag.String("tag", "", "the image's tag")
	output := flag.String("output", "bin/evictd-image.tar", "the docker-archive to write")
	flag.Parse()
	err := write(*binary, *tag, *output)
	if err == nil {
		err = printSizes(*binary, *output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// printSizes prints the size of the binary, and of the archive compressed as in a registry.
func printSizes(binary, archive string) error {
	plain, err := os.ReadFile(binary) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	text, err := os.ReadFile(archive) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	var compressed bytes.Buffer
	zip := gzip.NewWriter(&compressed)
	if _, err = zip.Write(text); err != nil {
		return fmt.Errorf("compressing %s: %w", archive, err)
	}
	if err = zip.Close(); err != nil {
		return fmt.Errorf("compressing %s: %w", archive, err)
	}
	const megabyte = 1e6
	fmt.Printf("%s: the binary has %.1f MB, the image %.1f MB compressed\n",
		archive, float64(len(plain))/megabyte, float64(compressed.Len())/megabyte)
	return nil
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
