// Command layout writes evictd's image for several platforms as an OCI image layout, and the
// SBOM of each platform beside it. The images are those of command image.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evictd/evictd/test/image/internal/oci"
	"github.com/evictd/evictd/test/image/internal/program"
	"github.com/evictd/evictd/test/image/internal/sbom"
)

func main() {
	var r program.Release
	output := flag.String("output", "bin/evictd-oci", "the directory to replace with the layout; the SBOMs are named after it")
	created := flag.Int64("created", 0, "the time of the commit, in seconds since 1970")
	flag.StringVar(&r.Ref, "ref", "", "the name of the image, with its tag")
	flag.StringVar(&r.Version, "version", "", "the version of evictd")
	flag.StringVar(&r.Revision, "revision", "", "the commit; empty if it is not known")
	flag.Parse()
	r.Created = time.Unix(*created, 0).UTC()
	if err := run(*output, r, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run packs the binaries, each written as os/architecture=path.
func run(output string, r program.Release, binaries []string) error {
	if len(binaries) == 0 {
		return fmt.Errorf("writing %s: name the binaries as linux/amd64=PATH", output)
	}
	temporary, err := os.MkdirTemp("", "evictd-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // only what this run made
	var archives []oci.Archive
	for _, word := range binaries {
		platform, binary, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%q is no binary of a platform: write linux/amd64=PATH", word)
		}
		if err = check(platform, binary); err != nil {
			return err
		}
		name := strings.ReplaceAll(platform, "/", "-")
		archive := oci.Archive{Platform: platform, Path: filepath.Join(temporary, name+".tar")}
		if err = program.WriteArchive(archive.Path, binary, r); err != nil {
			return err
		}
		archives = append(archives, archive)
	}
	digest, err := oci.WriteLayout(output, r.Ref, archives)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s %s\n", output, r.Ref, digest)
	for _, word := range binaries {
		platform, binary, _ := strings.Cut(word, "=")
		list := output + "-" + strings.ReplaceAll(platform, "/", "-") + ".spdx.json"
		if err := sbom.Write(list, binary, r); err != nil {
			return err
		}
		fmt.Printf("%s: the SBOM of %s\n", list, platform)
	}
	return nil
}

// check compares the platform that a binary is given for with the one that it is built for.
func check(platform, binary string) error {
	b, err := program.Read(binary)
	if err != nil {
		return err
	}
	if b.Platform() != platform {
		return fmt.Errorf("%s is built for %s, not for %s", binary, b.Platform(), platform)
	}
	return nil
}
