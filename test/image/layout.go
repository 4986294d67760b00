package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is the annotation in a layout's index.json that names an image.
const refName = "org.opencontainers.image.ref.name"

// writeLayout replaces the directory with a layout that holds one index, under the image's name, of an image for
// each binary, which is written as os/architecture=path. It writes the SBOM of each beside it.
func writeLayout(dir string, r release, binaries []string) error {
	if len(binaries) == 0 {
		return fmt.Errorf("writing %s: name the binaries as linux/amd64=PATH", dir)
	}
	temporary, err := os.MkdirTemp("", "evictd-image-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // only what this run made
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, word := range binaries {
		platform, image, unpacked := imageOf(word, temporary, r)
		if unpacked != nil {
			return unpacked
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	annotated, ok := mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	if !ok {
		return errors.New("annotating the index: it is no longer an index")
	}
	if err = replace(dir, r.ref, annotated); err != nil {
		return fmt.Errorf("writing %s: %w", dir, err)
	}
	fmt.Printf("%s: %s\n", dir, r.ref)
	return writeSBOMs(dir, r, binaries)
}

// replace writes the layout, and puts it in the place of the last.
func replace(dir, ref string, index v1.ImageIndex) error {
	// Nothing ever sees half of a layout.
	whole := dir + ".new"
	if err := errors.Join(os.RemoveAll(whole), os.MkdirAll(filepath.Dir(dir), 0o750)); err != nil { //nolint:gosec // the caller names the layout
		return err
	}
	written, err := layout.Write(whole, empty.Index)
	if err == nil {
		err = written.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: ref}))
	}
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(whole, dir)) //nolint:gosec // as above
}

// imageOf returns the image of a binary in OCI's media types, its layer compressed, with its labels as
// annotations too. The folder is for its docker-archive, which is read lazily.
func imageOf(word, folder string, r release) (*v1.Platform, v1.Image, error) {
	wanted, binary, ok := strings.Cut(word, "=")
	if !ok {
		return nil, nil, fmt.Errorf("%q is no binary of a platform: write linux/amd64=PATH", word)
	}
	_, platform, err := built(binary)
	if err != nil {
		return nil, nil, err
	}
	if platform != wanted {
		return nil, nil, fmt.Errorf("%s is built for %s, not for %s", binary, platform, wanted)
	}
	archive := filepath.Join(folder, named(platform)+".tar")
	if err = writeArchive(archive, binary, r); err != nil {
		return nil, nil, err
	}
	image, config, err := compressed(archive)
	if err != nil {
		return nil, nil, fmt.Errorf("packing %s: %w", binary, err)
	}
	return &v1.Platform{OS: config.OS, Architecture: config.Architecture}, image, nil
}

// compressed returns the image of a docker-archive and its configuration.
func compressed(archive string) (v1.Image, *v1.ConfigFile, error) {
	packed, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return nil, nil, err
	}
	config, err := packed.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	layers, err := packed.Layers()
	if err != nil {
		return nil, nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range layers {
		if layer, err = tarball.LayerFromOpener(layer.Uncompressed,
			tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer)); err != nil {
			return nil, nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, nil, err
		}
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, nil, err
	}
	annotated, ok := mutate.Annotations(image, config.Config.Labels).(v1.Image)
	if !ok {
		return nil, nil, errors.New("it is no longer an image with its annotations")
	}
	return annotated, config, nil
}

// named is a platform as a part of a file's name.
func named(platform string) string { return strings.ReplaceAll(platform, "/", "-") }

// readLayout returns the one index that a layout holds.
func readLayout(dir string) (v1.ImageIndex, error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the layout %s: %w", dir, err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the layout %s: %w", dir, err)
	}
	if len(manifest.Manifests) != 1 || !manifest.Manifests[0].MediaType.IsIndex() {
		return nil, fmt.Errorf("the layout %s does not hold one index: make it with 'make image'", dir)
	}
	return top.ImageIndex(manifest.Manifests[0].Digest)
}
