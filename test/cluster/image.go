package cluster

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"testing/fstest"
	"time"
)

// ImageConfig is an image's configuration of its containers.
type ImageConfig struct {
	// Entrypoint is the program and its first arguments.
	Entrypoint []string `json:",omitempty"`
	// User is a number, or UID:GID; empty is root.
	User string `json:",omitempty"`
	// Labels are the image's labels.
	Labels map[string]string `json:",omitempty"`
	// Architecture is the one that the image is for, by Go's name; empty is that of this process.
	Architecture string `json:"-"`
	// Created is the image's own time; the zero time is 1970.
	Created time.Time `json:"-"`
}

// imageDocument is an image's configuration in the format of the OCI image specification.
type imageDocument struct {
	Created      string      `json:"created"`
	Architecture string      `json:"architecture"`
	OS           string      `json:"os"`
	Config       ImageConfig `json:"config"`
	RootFS       imageLayers `json:"rootfs"`
}

type imageLayers struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// WriteImage writes an image of one layer as a docker-archive, which [Cluster.ImportImage]
// and most tools accept. files maps paths in the image to files of this machine. Executable
// files stay executable, and all belong to root. The same content gives the same bytes.
func WriteImage(target, ref string, files map[string]string, config ImageConfig) error {
	layer, err := makeLayer(files)
	if err != nil {
		return fmt.Errorf("making the layer of image %s: %w", ref, err)
	}
	layerID := digest(layer)
	if config.Created.IsZero() {
		config.Created = time.Unix(0, 0)
	}
	document, err := json.Marshal(imageDocument{
		Created: config.Created.UTC().Format(time.RFC3339), Architecture: cmp.Or(config.Architecture, runtime.GOARCH), OS: "linux",
		Config: config,
		RootFS: imageLayers{Type: "layers", DiffIDs: []string{"sha256:" + layerID}},
	})
	if err != nil {
		return fmt.Errorf("encoding the configuration of image %s: %w", ref, err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digest(document) + ".json", "RepoTags": []string{ref}, "Layers": []string{layerID + ".tar"},
	}})
	if err != nil {
		return fmt.Errorf("encoding the manifest of image %s: %w", ref, err)
	}
	output, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // the caller's own path
	if err != nil {
		return fmt.Errorf("writing image %s: %w", ref, err)
	}
	packed := pack(output, fstest.MapFS{
		"manifest.json": entry(manifest, plain), digest(document) + ".json": entry(document, plain), layerID + ".tar": entry(layer, plain),
	})
	if err = errors.Join(packed, output.Close()); err != nil {
		return fmt.Errorf("writing image %s: %w", ref, err)
	}
	return nil
}

// The modes of an image's files and directories.
const executable, plain = 0o755, 0o644

// makeLayer packs files of this machine, by their paths in the image, and the directories above them.
func makeLayer(files map[string]string) ([]byte, error) {
	tree := fstest.MapFS{}
	for name, source := range files {
		info, err := os.Stat(source)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(source) //nolint:gosec // the caller's own path
		if err != nil {
			return nil, err
		}
		const anyone = 0o111
		mode := fs.FileMode(plain)
		if info.Mode().Perm()&anyone != 0 {
			mode = executable
		}
		inside := strings.TrimPrefix(path.Clean("/"+name), "/")
		tree[inside] = entry(content, mode)
		for dir := path.Dir(inside); dir != "."; dir = path.Dir(dir) {
			tree[dir] = entry(nil, fs.ModeDir|executable)
		}
	}
	var layer bytes.Buffer
	err := pack(&layer, tree)
	return layer.Bytes(), err
}

// entry has no value that differs between two runs.
func entry(content []byte, mode fs.FileMode) *fstest.MapFile {
	return &fstest.MapFile{Data: content, Mode: mode, ModTime: time.Unix(0, 0)}
}

func pack(output io.Writer, files fs.FS) error {
	archive := tar.NewWriter(output)
	return errors.Join(archive.AddFS(files), archive.Close())
}

func digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
