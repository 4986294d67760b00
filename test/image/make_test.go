package main

import (
	"archive/tar"
	"errors"
	"fmt"
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

const repository = "../.."

// What make image writes for one commit is the same byte by byte for both architectures, also from
// another directory, in another time zone. What make image-push pushes
// comes back from the registry as it was built.
func TestMakeImageTwice(t *testing.T) {
	t.Parallel()
	address := startRegistry(t)
	first, second := t.TempDir(), t.TempDir()
	printed := runMake(t, repository, nil, "image", "image-push", "BIN="+first, "REGISTRY="+address+"/some/evictd")

	binary := versionOf(t, first)
	if binary.Version != version(t) {
		t.Errorf("evictd version prints %s, VERSION has %s", binary.Version, version(t))
	}
	index, err := readLayout(filepath.Join(first, "evictd-oci"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := holdsBothPrograms(t, index)
	copied, revision := copyCheckout(t), manifest.Annotations["org.opencontainers.image.revision"]
	runMake(t, copied, []string{"TZ=Asia/Tokyo"}, "image", "BIN="+second, "REVISION="+revision, "COMMIT="+binary.Revision, "SOURCE_DATE_EPOCH="+epoch(t))
	sameFiles(t, first, second)

	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		listsModules(t, filepath.Join(first, "evictd-oci-"+platform+".spdx.json"), filepath.Join(first, "image", platform, "evictd"))
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	back, err := remote.Index(tag, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var document spdx.Document
	if err = spdxjson.ReadInto(file, &document); err != nil {
		t.Fatal(err)
	}
	if err = spdxlib.ValidateDocument(&document); err != nil {
		t.Error(err)
	}
	info, _, err := built(binary)
	if err != nil {
		t.Fatal(err)
	}
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

// holdsBothPrograms checks the images of the platforms: their programs, configuration, labels and files. It returns
// the manifest of the index.
func holdsBothPrograms(t *testing.T, index v1.ImageIndex) *v1.IndexManifest {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIImageIndex || manifest.Annotations["org.opencontainers.image.version"] != version(t) {
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
		if _, platform, err := built(unpack(t, image)); err != nil || platform != descriptor.Platform.String() {
			t.Errorf("the image for %s holds a program for %s: %v", descriptor.Platform, platform, err)
		}
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("the index is for %s", got)
	}
	return manifest
}

// checkImage checks the configuration and the labels of an image.
func checkImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != platform.Architecture || config.Config.User != user || !slices.Equal(config.Config.Entrypoint, []string{path}) {
		t.Errorf("%s: configuration %+v", platform, config)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	archive := tar.NewReader(content)
	header, err := archive.Next()
	if err != nil || header.Name != "evictd" || header.Mode != 0o755 || header.Uid != 0 {
		t.Fatalf("entry %+v, %v", header, err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "evictd"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(file, archive)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err = archive.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("more than one file: %v", err)
	}
	return file.Name()
}

// epoch returns the image's time as make has it.
func epoch(t *testing.T) string {
	t.Helper()
	_, rest, found := strings.Cut(makeSays(t, "image-archive"), "--created ")
	seconds, _, _ := strings.Cut(rest, " ")
	if !found || seconds == "" {
		t.Fatal("make image-archive has no --created")
	}
	return seconds
}

// copyCheckout copies the repository, without what git and make keep in it, and returns where to.
func copyCheckout(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		from, to := filepath.Join(repository, entry.Name()), filepath.Join(target, entry.Name())
		switch {
		case entry.Name() == ".git" || entry.Name() == "bin":
		case entry.IsDir():
			err = os.CopyFS(to, os.DirFS(from))
		default:
			var content []byte
			if content, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return target
}

// sameFiles checks that two directories have the same files.
func sameFiles(t *testing.T, first, second string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "diff", "-r", first, second).CombinedOutput(); err != nil {
		t.Errorf("two builds of one commit: %v\n%s", err, output)
	}
}

// printedVersion is what `evictd version` says of where it comes from.
type printedVersion struct{ Version, Revision string }

func versionOf(t *testing.T, bin string) (printed printedVersion) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), filepath.Join(bin, "evictd"), "version").Output()
	if err == nil {
		_, err = fmt.Sscanf(strings.Replace(string(output), ",", " ", 1), "evictd %s (%s", &printed.Version, &printed.Revision)
	}
	if err != nil {
		t.Fatalf("evictd version: %v\n%s", err, output)
	}
	return printed
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
