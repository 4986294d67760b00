// Command image writes evictd's container image for one platform as a docker-archive: one
// layer with one static binary, no shell, no libc, no Docker engine needed to build it.
// Command image/layout makes an image for several platforms of such archives.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/evictd/evictd/test/image/internal/program"
)

func main() {
	var r program.Release
	binary := flag.String("binary", "bin/evictd", "the static binary; the image is for its platform")
	output := flag.String("output", "bin/evictd-image.tar", "the docker-archive to write")
	created := flag.Int64("created", 0, "the time of the commit, in seconds since 1970")
	flag.StringVar(&r.Ref, "ref", "", "the name of the image, with its tag")
	flag.StringVar(&r.Version, "version", "", "the version of evictd")
	flag.StringVar(&r.Revision, "revision", "", "the commit; empty if it is not known")
	flag.Parse()
	r.Created = time.Unix(*created, 0).UTC()
	err := program.WriteArchive(*output, *binary, r)
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
