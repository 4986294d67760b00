// Package oci makes an image for several platforms of docker-archives, keeps it in an OCI
// image layout and pushes it to a registry. The same archives give the same bytes.
package oci

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Archive is the docker-archive of one platform.
type Archive struct {
	// Platform is os/architecture, which the image in the archive must have.
	Platform string
	// Path is that of the archive.
	Path string
}

// refName is the annotation in a layout's index.json that names an image.
const refName = "org.opencontainers.image.ref.name"

// WriteLayout replaces the directory with a layout that holds one index, of one image for each
// archive, under the image's name, and returns the digest of that index.
func WriteLayout(dir, ref string, archives []Archive) (digest v1.Hash, err error) {
	index, err := makeIndex(archives)
	if err != nil {
		return v1.Hash{}, err
	}
	whole := dir + ".new" // nothing ever sees half of a layout
	if err = errors.Join(os.RemoveAll(whole), os.MkdirAll(filepath.Dir(dir), 0o750)); err != nil {
		return v1.Hash{}, fmt.Errorf("writing %s: %w", dir, err)
	}
	path, err := layout.Write(whole, empty.Index)
	if err == nil {
		err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: ref}))
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err == nil {
		err = os.Rename(whole, dir)
	}
	if err != nil {
		return v1.Hash{}, fmt.Errorf("writing %s: %w", dir, err)
	}
	return index.Digest()
}

// makeIndex returns the index of the images, with the labels of the first one as annotations.
func makeIndex(archives []Archive) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var labels map[string]string
	for _, archive := range archives {
		image, config, err := archive.image()
		if err != nil {
			return nil, err
		}
		if labels == nil {
			labels = config.Config.Labels
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	annotated, ok := mutate.Annotations(index, labels).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("annotating the index: it is no longer an index")
	}
	return annotated, nil
}

// image returns the archive's image in OCI's media types, its layer compressed, with its labels
// as annotations too.
func (a Archive) image() (v1.Image, *v1.ConfigFile, error) {
	packed, err := tarball.ImageFromPath(a.Path, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the image %s: %w", a.Path, err)
	}
	config, err := packed.ConfigFile()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the configuration of %s: %w", a.Path, err)
	}
	if got := config.OS + "/" + config.Architecture; got != a.Platform {
		return nil, nil, fmt.Errorf("%s holds an image for %s, not for %s", a.Path, got, a.Platform)
	}
	layers, err := packed.Layers()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the layers of %s: %w", a.Path, err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range layers {
		if layer, err = tarball.LayerFromOpener(layer.Uncompressed,
			tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer)); err != nil {
			return nil, nil, fmt.Errorf("compressing a layer of %s: %w", a.Path, err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, nil, fmt.Errorf("adding a layer of %s: %w", a.Path, err)
		}
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, nil, fmt.Errorf("configuring the image of %s: %w", a.Path, err)
	}
	annotated, ok := mutate.Annotations(image, config.Config.Labels).(v1.Image)
	if !ok {
		return nil, nil, fmt.Errorf("annotating the image of %s: it is no longer an image", a.Path)
	}
	return annotated, config, nil
}

// Read returns the one index that a layout holds.
func Read(dir string) (v1.ImageIndex, error) {
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
