package cluster

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ImageConfig is an image's configuration of its containers.
type ImageConfig struct {
	// Entrypoint is the program and its first arguments.
	Entrypoint []string
	// User is a number, or UID:GID; empty is root.
	User string
	// Labels are the image's labels.
	Labels map[string]string
	// Architecture is the one that the image is for, by Go's name; empty is that of this process.
	Architecture string
	// Created is the image's own time; the zero time is 1970.
	Created time.Time
}

// imageDocument is an image's configuration in the format of the OCI image specification.
type imageDocument struct {
	Created      string         `json:"created"`
	Architecture string         `json:"architecture"`
	OS           string         `json:"os"`
	Config       imageContainer `json:"config"`
	RootFS       imageLayers    `json:"rootfs"`
}

type imageContainer struct {
	User       string            `json:"User,omitempty"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

type imageLayers struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// archiveManifest is one entry of a docker-archive's manifest.json.
type archiveManifest struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
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
		Config: imageContainer{User: config.User, Entrypoint: config.Entrypoint, Labels: config.Labels},
		RootFS: imageLayers{Type: "layers", DiffIDs: []string{"sha256:" + layerID}},
	})
	if err != nil {
		return fmt.Errorf("encoding the configuration of image %s: %w", ref, err)
	}
	manifest, err := json.Marshal([]archiveManifest{{
		Config: digest(document) + ".json", RepoTags: []string{ref}, Layers: []string{layerID + ".tar"},
	}})
	if err != nil {
		return fmt.Errorf("encoding the manifest of image %s: %w", ref, err)
	}
	if err := writeArchive(target, []archiveFile{
		{"manifest.json", manifest}, {digest(document) + ".json", document}, {layerID + ".tar", layer},
	}); err != nil {
		return fmt.Errorf("writing image %s: %w", ref, err)
	}
	return nil
}

type archiveFile struct {
	name    string
	content []byte
}

func writeArchive(target string, files []archiveFile) (err error) {
	output, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // the caller's own path
	if err != nil {
		return err
	}
	defer func() {
		if closed := output.Close(); err == nil {
			err = closed
		}
	}()
	archive := tar.NewWriter(output)
	for _, file := range files {
		if err := addEntry(archive, file.name, 0o644, tar.TypeReg, bytes.NewReader(file.content), int64(len(file.content))); err != nil {
			return err
		}
	}
	return archive.Close()
}

func makeLayer(files map[string]string) ([]byte, error) {
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	made, sources := make(map[string]bool), make(map[string]string)
	for name, source := range files {
		sources[strings.TrimPrefix(path.Clean("/"+name), "/")] = source
	}
	for _, inside := range slices.Sorted(maps.Keys(sources)) {
		if err := addParents(archive, inside, made); err != nil {
			return nil, err
		}
		if err := addHostFile(archive, inside, sources[inside]); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return layer.Bytes(), err
}

func addParents(archive *tar.Writer, inside string, made map[string]bool) error {
	parent := path.Dir(inside)
	if parent == "." || made[parent] {
		return nil
	}
	if err := addParents(archive, parent, made); err != nil {
		return err
	}
	made[parent] = true
	return addEntry(archive, parent+"/", 0o755, tar.TypeDir, nil, 0)
}

func addHostFile(archive *tar.Writer, inside, source string) error {
	file, err := os.Open(source) //nolint:gosec // the caller's own path
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const executable, plain, anyone = 0o755, 0o644, 0o111
	mode := int64(plain)
	if info.Mode().Perm()&anyone != 0 {
		mode = executable
	}
	return addEntry(archive, inside, mode, tar.TypeReg, file, info.Size())
}

// addEntry writes an entry without any value that differs between two runs.
func addEntry(archive *tar.Writer, name string, mode int64, kind byte, content io.Reader, size int64) error {
	header := &tar.Header{Name: name, Mode: mode, Typeflag: kind, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	if content == nil {
		return nil
	}
	if _, err := io.Copy(archive, content); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
