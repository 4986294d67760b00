package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/wording"
)

// maxFileBytes bounds the file: what is larger is some other file. A ConfigMap
// cannot be larger either.
const maxFileBytes = 1 << 20

// Load returns the configuration in the file at path, completed by the defaults
// and validated. An Aggregate of k8s.io/apimachinery/pkg/util/errors has the faults of
// the content, one line each: the field's path, what is wrong, what to do. Any other error
// says that the file could not be read or is not one YAML document.
func Load(path string) (*EvictdConfiguration, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// read returns the file's content, cut off one byte behind what it may have: [toJSON] refuses that.
func read(path string) (_ []byte, err error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	return data, nil
}

// Parse returns the configuration that data holds, completed by the defaults and
// validated. Its errors are those of [Load].
func Parse(data []byte) (*EvictdConfiguration, error) {
	text, err := toJSON(data)
	if err != nil {
		return nil, fmt.Errorf("parsing configuration: %w", err)
	}
	c, f := base(), &faults{}
	unknown, err := kjson.UnmarshalStrict(text, c)
	if err != nil {
		return nil, unfit(text, err)
	}
	if c.Kind == Kind || c.Kind == "" { // of another kind each field would be unknown
		f.unknown(unknown)
	}
	c.complete()
	f.validate(c)
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// toJSON returns the one document of a YAML text as JSON. The conversion is the kubelet's, so that a
// text is a number or a string to both. It reads the first document alone.
func toJSON(data []byte) ([]byte, error) {
	if len(data) > maxFileBytes {
		return nil, errors.New("the file is larger than 1 MiB: not a configuration")
	}
	if err := oneDocument(data); err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, notYAML(err)
	}
	if string(text) == "null" {
		return nil, errors.New("the file is empty: it must hold apiVersion " + APIVersion + " and kind " + Kind)
	}
	return text, nil
}

// oneDocument refuses a text with a second document that is not empty.
func oneDocument(data []byte) error {
	documents := yamlnode.NewDecoder(bytes.NewReader(data))
	for first := true; ; first = false {
		var document yamlnode.Node
		switch err := documents.Decode(&document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return notYAML(err)
		case !first && document.Content[0].Tag != "!!null":
			return fmt.Errorf("line %d starts a second YAML document: the file must hold one", document.Line)
		}
	}
}

// notYAML returns an error of the YAML library on one line. Keys that are there twice are among them.
func notYAML(err error) error {
	text := strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "", "\n  ", "; ").Replace(err.Error())
	return errors.New("not YAML: " + wording.OneLine(text))
}
