package oci

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/evictd/evictd/test/image/internal/registrytest"
)

// What is pushed to a registry has the digest of the layout, and comes back whole.
func TestPushAndPull(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	want, err := WriteLayout(dir, testRelease().Ref, pack(t))
	if err != nil {
		t.Fatal(err)
	}
	address := registrytest.Start(t, "../../registry")
	pushed, err := Push(t.Context(), dir, address+"/some/evictd:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if pushed.String() != address+"/some/evictd@"+want.String() {
		t.Errorf("pushed %s, want the digest %s", pushed, want)
	}
	tag, err := name.NewTag(address + "/some/evictd:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []name.Reference{pushed, tag} {
		index, err := remote.Index(ref, remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := index.Digest(); err != nil || got != want {
			t.Errorf("pulled %s by %s, want %s: %v", got, ref, want, err)
		}
		if err := validate.Index(index); err != nil { // reads each layer
			t.Error(err)
		}
	}
}

func TestPushToUnreachableRegistry(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := WriteLayout(dir, testRelease().Ref, pack(t)); err != nil {
		t.Fatal(err)
	}
	closed := registrytest.FreeAddress(t)
	_, err := Push(t.Context(), dir, closed+"/evictd:v1")
	want := fmt.Sprintf("pushing to %s/evictd:v1: the registry cannot be reached: dial tcp %s: connect: connection refused", closed, closed)
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

func TestPushWithoutRegistryOrLayout(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"evictd":                 `pushing to "evictd": write it as registry/repository:tag`,
		"registry.example/a:b":   "reading the layout ",
		"registry.example/A_/:b": `pushing to "registry.example/A_/:b"`,
	} {
		_, err := Push(t.Context(), t.TempDir(), ref)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %s…", ref, err, want)
		}
	}
}
