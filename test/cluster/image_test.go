package cluster

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWriteImage(t *testing.T) {
	dir := t.TempDir()
	program, plain := filepath.Join(dir, "program"), filepath.Join(dir, "plain")
	write(t, program, "binary", 0o700)
	write(t, plain, "text", 0o600)
	files := map[string]string{"/usr/bin/program": program, "etc/plain": plain, "/usr/lib/program": program}
	config := ImageConfig{Entrypoint: []string{"/usr/bin/program"}, User: "65534"}

	first, second := filepath.Join(dir, "first.tar"), filepath.Join(dir, "second.tar")
	if err := WriteImage(first, "localhost/evictd/some:test", files, config); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(program, later, later); err != nil {
		t.Fatal(err)
	}
	if err := WriteImage(second, "localhost/evictd/some:test", files, config); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(t, first), read(t, second)) {
		t.Error("the same content gave different bytes")
	}

	contents, _ := untar(t, read(t, first))
	var manifest []archiveManifest
	if err := json.Unmarshal(contents["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || len(manifest[0].Layers) != 1 || strings.Join(manifest[0].RepoTags, " ") != "localhost/evictd/some:test" {
		t.Fatalf("manifest %+v", manifest)
	}
	layer := contents[manifest[0].Layers[0]]
	var document imageDocument
	if err := json.Unmarshal(contents[manifest[0].Config], &document); err != nil {
		t.Fatal(err)
	}
	if want := "sha256:" + digest(layer); document.RootFS.DiffIDs[0] != want {
		t.Errorf("layer %s in the configuration, want %s", document.RootFS.DiffIDs[0], want)
	}
	if document.Config.User != "65534" || document.Config.Entrypoint[0] != "/usr/bin/program" || document.OS != "linux" {
		t.Errorf("configuration %+v", document)
	}
	_, listing := untar(t, layer)
	const golden = `drwxr-xr-x 0:0 0 etc/
-rw-r--r-- 0:0 4 etc/plain
drwxr-xr-x 0:0 0 usr/
drwxr-xr-x 0:0 0 usr/bin/
-rwxr-xr-x 0:0 6 usr/bin/program
drwxr-xr-x 0:0 0 usr/lib/
-rwxr-xr-x 0:0 6 usr/lib/program
`
	if listing != golden {
		t.Errorf("layer\n%s\nwant\n%s", listing, golden)
	}
}

func untar(t *testing.T, archive []byte) (contents map[string][]byte, listing string) {
	t.Helper()
	contents = make(map[string][]byte)
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return contents, listing
		}
		if err != nil {
			t.Fatal(err)
		}
		listing += fmt.Sprintf("%s %d:%d %d %s\n", header.FileInfo().Mode(), header.Uid, header.Gid, header.Size, header.Name)
		if contents[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The second name of an image has the same digest, and only that of its own image.
func TestSameImage(t *testing.T) {
	const table = `REF                      TYPE                                      DIGEST       SIZE  PLATFORMS   LABELS
localhost/a:1            application/vnd.oci.image.manifest.v1+json sha256:aaa  1 MiB linux/amd64 io.cri-containerd.image=managed
localhost/b:1            application/vnd.oci.image.manifest.v1+json sha256:bbb  1 MiB linux/amd64 -
sha256:0123              application/vnd.oci.image.manifest.v1+json sha256:aaa  1 MiB linux/amd64 io.cri-containerd.image=managed
`
	if got := sameImage(table, "localhost/a:1"); !slices.Equal(got, []string{"localhost/a:1", "sha256:0123"}) {
		t.Errorf("got %q", got)
	}
	if got := sameImage(table, "localhost/c:1"); len(got) > 0 {
		t.Errorf("got %q of an image that is not there", got)
	}
}
