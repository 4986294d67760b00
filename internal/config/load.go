package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/wording"
)

// maxFileBytes bounds the file: what is larger is some other file. A ConfigMap
// cannot be larger either.
const maxFileBytes = 1 << 20

// Load returns the configuration in the file at path, completed by the defaults
// and validated. An *[InvalidError] holds the faults of the content; any other
// error says that the file could not be read or is not one YAML document.
func Load(path string) (*EvictdConfiguration, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// read returns the file's content, cut off one byte behind what it may have: [checkText]
// refuses that. The path may be a pipe.
func read(path string) (_ []byte, err error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	return data, nil
}

// Parse returns the configuration that data holds, completed by the defaults and
// validated. Its errors are those of [Load].
func Parse(data []byte) (*EvictdConfiguration, error) {
	root, err := document(data)
	if err != nil {
		return nil, fmt.Errorf("parsing configuration: %w", err)
	}
	tree, err := valuesOf(data)
	if err != nil {
		return nil, fmt.Errorf("parsing configuration: %w", err)
	}
	if faults := otherKind(tree); len(faults) > 0 {
		return nil, invalid(faults)
	}
	if fault := tooDeep(field.NewPath("queues"), tree["queues"], 1); fault != nil {
		return nil, invalid(field.ErrorList{fault})
	}
	c := base()
	d := &decoder{broken: map[string]bool{}}
	d.duplicates(root)
	if err := d.decode(tree, c); err != nil {
		return nil, fmt.Errorf("parsing configuration: %w", err)
	}
	c.complete()
	v := &validator{c: c, broken: d.broken, faults: d.faults}
	v.validate()
	if err := invalid(v.faults); err != nil {
		return nil, err
	}
	return c, nil
}

// document checks that data is one YAML document and returns its nodes, which
// know of duplicate keys and of further documents; the values come from valuesOf.
func document(data []byte) (*yamlnode.Node, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	documents := yamlnode.NewDecoder(bytes.NewReader(data))
	var first yamlnode.Node
	switch err := documents.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, errEmpty
	case err != nil:
		return nil, fmt.Errorf("not YAML: %s", wording.OneLine(err.Error()))
	}
	for {
		var next yamlnode.Node
		err := documents.Decode(&next)
		if errors.Is(err, io.EOF) {
			return &first, nil
		}
		if err != nil {
			return nil, fmt.Errorf("not YAML: %s", wording.OneLine(err.Error()))
		}
		if !isNull(&next) {
			return nil, fmt.Errorf("line %d starts a second YAML document: the file must hold one", next.Line)
		}
	}
}

// checkText refuses what no YAML text is.
func checkText(data []byte) error {
	if len(data) > maxFileBytes {
		return errors.New("the file is larger than 1 MiB: not a configuration")
	}
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return fmt.Errorf("the file has a NUL byte at offset %d: not a text file", at)
	}
	if !utf8.Valid(data) {
		return errors.New("the file is not UTF-8 text")
	}
	return nil
}

var errEmpty = errors.New("the file is empty: it must hold apiVersion " + APIVersion + " and kind " + Kind)

func isNull(n *yamlnode.Node) bool {
	return n.Kind == yamlnode.DocumentNode && len(n.Content) == 1 && n.Content[0].Tag == "!!null"
}

// valuesOf returns what the document holds as JSON values, numbers as json.Number.
// The conversion is the one the kubelet's loader uses, so that a text is a number
// or a string to both.
func valuesOf(data []byte) (map[string]any, error) {
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %s", wording.OneLine(err.Error()))
	}
	numbers := json.NewDecoder(bytes.NewReader(converted))
	numbers.UseNumber()
	var tree any
	if err := numbers.Decode(&tree); err != nil {
		return nil, fmt.Errorf("not YAML: %s", wording.OneLine(err.Error()))
	}
	switch root := tree.(type) {
	case nil:
		return nil, errEmpty
	case map[string]any:
		return root, nil
	default:
		return nil, fmt.Errorf("the file holds %s, not fields and values", describe(tree))
	}
}

// otherKind returns the faults of a file of another kind. Only its head is checked: field by field
// there would be one unknown field a line.
func otherKind(tree map[string]any) field.ErrorList {
	head := &EvictdConfiguration{APIVersion: textOf(tree["apiVersion"]), Kind: textOf(tree["kind"])}
	if head.Kind == "" || head.Kind == Kind {
		return nil
	}
	v := &validator{c: head}
	v.header()
	return v.faults
}

// textOf returns v, or "" where it is no text.
func textOf(v any) string {
	text, ok := v.(string)
	if !ok {
		return ""
	}
	return text
}
