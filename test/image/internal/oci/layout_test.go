package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/image/internal/program"
)

func testRelease() program.Release {
	return program.Release{
		Ref: "registry.example/evictd:v1.2.3", Version: "v1.2.3", Revision: "0123abc",
		Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// pack returns the archives of two platforms, of a binary that only has some bytes.
func pack(t *testing.T) []Archive {
	t.Helper()
	var archives []Archive
	for _, architecture := range []string{"amd64", "arm64"} {
		dir := t.TempDir()
		file, target := filepath.Join(dir, "evictd"), filepath.Join(dir, "image.tar")
		content := bytes.Repeat([]byte(architecture), 10000)
		if err := os.WriteFile(file, content, 0o755); err != nil {
			t.Fatal(err)
		}
		config := cluster.ImageConfig{
			Entrypoint: []string{program.Path}, User: program.User, Labels: testRelease().Labels(),
			Architecture: architecture, Created: testRelease().Created,
		}
		if err := cluster.WriteImage(target, testRelease().Ref, map[string]string{program.Path: file}, config); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, Archive{Platform: "linux/" + architecture, Path: target})
	}
	return archives
}

// Two layouts of the same binaries, packed in different directories, are equal byte by byte.
func TestLayoutIsReproducible(t *testing.T) {
	t.Parallel()
	var dirs []string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "layout")
		if _, err := WriteLayout(dir, testRelease().Ref, pack(t)); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	first, second := files(t, dirs[0]), files(t, dirs[1])
	if len(first) < 8 { // oci-layout, index.json, an index, two manifests, configurations and layers
		t.Errorf("a layout of %d files", len(first))
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
	if len(first) != len(second) {
		t.Errorf("%d files and %d", len(first), len(second))
	}
}

// A layout replaces the one before: what that held is gone.
func TestLayoutReplacesTheLast(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	archives := pack(t)
	for _, some := range [][]Archive{archives, archives[:1]} {
		if _, err := WriteLayout(dir, testRelease().Ref, some); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(files(t, dir)); got != 6 {
		t.Errorf("%d files after the second layout, want those of one platform", got)
	}
}

func TestLayoutHoldsBothPlatforms(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := WriteLayout(dir, testRelease().Ref, pack(t)); err != nil {
		t.Fatal(err)
	}
	index, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err = validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIImageIndex || manifest.Annotations["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("index %s, annotations %v", manifest.MediaType, manifest.Annotations)
	}
	var platforms []string
	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, descriptor.Platform)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %q, want %q", platforms, want)
	}
}

// checkImage checks the configuration, the labels and the files of an image.
func checkImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != platform.OS || config.Architecture != platform.Architecture {
		t.Errorf("%s: the image is for %s/%s", platform, config.OS, config.Architecture)
	}
	if !config.Created.Equal(testRelease().Created) || config.Config.User != "64535:64535" || !slices.Equal(config.Config.Entrypoint, []string{"/evictd"}) {
		t.Errorf("%s: configuration %+v", platform, config)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"title", "description", "version", "revision", "source", "licenses", "created"} {
		key = "org.opencontainers.image." + key
		if config.Config.Labels[key] == "" || config.Config.Labels[key] != manifest.Annotations[key] {
			t.Errorf("%s: %s is %q as a label, %q as an annotation", platform, key, config.Config.Labels[key], manifest.Annotations[key])
		}
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%s: %d layers, %v", platform, len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	archive := tar.NewReader(content)
	header, err := archive.Next()
	if err != nil || header.Name != "evictd" || header.Mode != 0o755 || header.Uid != 0 {
		t.Errorf("%s: entry %+v, %v", platform, header, err)
	}
	if _, err = archive.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%s: more than one file", platform)
	}
}

func TestWrongArchitecture(t *testing.T) {
	t.Parallel()
	archives := pack(t)
	archives[1].Platform = "linux/s390x"
	dir := filepath.Join(t.TempDir(), "layout")
	_, err := WriteLayout(dir, testRelease().Ref, archives)
	if err == nil || !strings.HasSuffix(err.Error(), "holds an image for linux/arm64, not for linux/s390x") {
		t.Errorf("error %v", err)
	}
	if _, err = os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a layout was left: %v", err)
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			found[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
