package main

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
)

const (
	repository = "../.."
	// The commit that the images are of.
	describedAs, revision = "v0.1.0-7-g0123456", "0123456789abcdef0123456789abcdef01234567"
)

// What make image writes for one commit is the same byte by byte for both architectures, also from
// another directory, in another time zone. What make image-push pushes
// comes back from the registry as it was built.
func TestMakeImageTwice(t *testing.T) {
	t.Parallel()
	address := startRegistry(t)
	first, second := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(first, "evictd-oci", "blobs", "sha256", "stale"), 0o750); err != nil { // of the last layout
		t.Fatal(err)
	}
	commit := []string{"COMMIT=" + describedAs, "REVISION=" + revision, "SOURCE_DATE_EPOCH=1767225600"}
	printed := runMake(t, repository, nil, append(commit, "image", "image-push", "BIN="+first, "REGISTRY="+address+"/some/evictd")...)

	output, err := exec.CommandContext(t.Context(), filepath.Join(first, "evictd"), "version").Output()
	if want := "evictd " + version(t) + " (" + describedAs + ","; err != nil || !strings.HasPrefix(string(output), want) {
		t.Errorf("evictd version prints %s, %v; want %s", output, err, want)
	}
	index, err := readLayout(filepath.Join(first, "evictd-oci"))
	must(t, err)
	holdsBothPrograms(t, index)
	runMake(t, copyCheckout(t), []string{"TZ=Asia/Tokyo"}, append(commit, "image", "BIN="+second)...)
	if output, err = exec.CommandContext(t.Context(), "diff", "-r", first, second).CombinedOutput(); err != nil {
		t.Errorf("two builds of one commit: %v\n%s", err, output)
	}

	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		listsModules(t, filepath.Join(first, "evictd-oci-"+platform+".spdx.json"), filepath.Join(first, "image", platform, "evictd"))
	}
	digest, err := index.Digest()
	must(t, err)
	for _, line := range []string{
		address + "/some/evictd@" + digest.String() + "\n",
		"--set image.repository=" + address + "/some/evictd --set image.digest=" + digest.String() + "\n",
		"kustomize edit set image " + imageName(t) + "=" + address + "/some/evictd@" + digest.String() + "\n",
	} {
		if !strings.Contains(printed, line) {
			t.Errorf("make image-push does not print %q:\n%s", line, printed)
		}
	}
	tag, err := name.NewTag(address + "/some/evictd:" + version(t))
	must(t, err)
	back, err := remote.Index(tag, remote.WithContext(t.Context()))
	must(t, err)
	if err = validate.Index(back); err != nil { // reads each layer
		t.Error(err)
	}
	if got, err := back.Digest(); err != nil || got != digest {
		t.Errorf("the registry returns %s, pushed was %s: %v", got, digest, err)
	}
}

// startRegistry starts a registry until the end of the test, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// listsModules checks that the SBOM of a binary is valid and has each module that is linked in.
func listsModules(t *testing.T, list, binary string) {
	t.Helper()
	file, err := os.Open(list)
	must(t, err)
	defer file.Close()
	var document spdx.Document
	must(t, spdxjson.ReadInto(file, &document))
	if err = spdxlib.ValidateDocument(&document); err != nil {
		t.Error(err)
	}
	info, _, err := built(binary)
	must(t, err)
	locators := make(map[string]bool)
	for _, p := range document.Packages {
		for _, external := range p.PackageExternalReferences {
			locators[external.Locator] = true
		}
	}
	for _, dependency := range info.Deps {
		if want := "pkg:golang/" + strings.ToLower(dependency.Path) + "@" + dependency.Version; !locators[want] {
			t.Errorf("%s: no package %s", list, want)
		}
	}
	if want := len(info.Deps) + 2; document.SPDXVersion != "SPDX-2.3" || len(document.Packages) != want || len(document.Relationships) != want {
		t.Errorf("%s: %s with %d packages and %d relationships, want %d", list, document.SPDXVersion, len(document.Packages), len(document.Relationships), want)
	}
}

// holdsBothPrograms checks the images of the platforms: their programs, configuration, labels and files.
func holdsBothPrograms(t *testing.T, index v1.ImageIndex) {
	t.Helper()
	manifest, err := index.IndexManifest()
	must(t, err)
	if of := manifest.Annotations; manifest.MediaType != types.OCIImageIndex || of["org.opencontainers.image.version"] != version(t) ||
		of["org.opencontainers.image.revision"] != revision || of["org.opencontainers.image.created"] != "2026-01-01T00:00:00Z" {
		t.Errorf("index %s, annotations %v", manifest.MediaType, manifest.Annotations)
	}
	var platforms []string
	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := index.Image(descriptor.Digest)
		must(t, err)
		checkImage(t, image, descriptor.Platform)
		if _, platform, err := built(unpack(t, image)); err != nil || platform != descriptor.Platform.String() {
			t.Errorf("the image for %s holds a program for %s: %v", descriptor.Platform, platform, err)
		}
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("the index is for %s", got)
	}
}

// checkImage checks the configuration and the labels of an image.
func checkImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	must(t, err)
	if config.Architecture != platform.Architecture || config.Config.User != user || !slices.Equal(config.Config.Entrypoint, []string{path}) {
		t.Errorf("%s: configuration %+v", platform, config)
	}
	manifest, err := image.Manifest()
	must(t, err)
	for key := range (release{revision: "x"}).labels() {
		if config.Config.Labels[key] == "" || config.Config.Labels[key] != manifest.Annotations[key] {
			t.Errorf("%s: %s is %q as a label, %q as an annotation", platform, key, config.Config.Labels[key], manifest.Annotations[key])
		}
	}
}

// unpack writes the one file of an image and returns its path.
func unpack(t *testing.T, image v1.Image) string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	must(t, err)
	defer content.Close()
	archive := tar.NewReader(content)
	header, err := archive.Next()
	if err != nil || header.Name != "evictd" || header.Mode != 0o755 || header.Uid != 0 {
		t.Fatalf("entry %+v, %v", header, err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "evictd"))
	must(t, err)
	_, err = io.Copy(file, archive)
	must(t, errors.Join(err, file.Close()))
	if _, err = archive.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("more than one file: %v", err)
	}
	return file.Name()
}

// copyCheckout copies the repository, without what git and make keep in it, and returns where to.
func copyCheckout(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	const copies = `tar -C "$1" --exclude=./.git --exclude=./bin -c . | tar -C "$2" -x`
	if output, err := exec.CommandContext(t.Context(), "sh", "-c", copies, "sh", repository, target).CombinedOutput(); err != nil {
		t.Fatalf("copying the checkout: %v: %s", err, output)
	}
	return target
}

// runMake runs make in a directory and returns what it prints.
func runMake(t *testing.T, dir string, environment []string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "-C", dir}, arguments...)...)
	command.Env = append(append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL="), environment...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return string(output)
}
