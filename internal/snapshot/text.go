package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// yamlEnd is the last line of a snapshot in YAML. A YAML text that was cut off at the
// end of a line is a YAML text all the same, with pods or figures missing.
const yamlEnd = "\n..."

// toJSON returns the document as JSON. What starts with a brace is JSON already.
func toJSON(data []byte) ([]byte, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\uFEFF"))) // the byte order mark of an editor
	switch {
	case len(trimmed) == 0:
		return nil, errors.New("the file is empty; name a file that evictd rank --save wrote")
	case trimmed[0] == '{':
		return trimmed, checkJSON(trimmed)
	case !bytes.HasSuffix(trimmed, []byte(yamlEnd)):
		return nil, errors.New("the file was cut off: a snapshot in YAML ends with a line of three dots; get the whole file")
	}
	if err := checkYAML(data); err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, notYAML(err)
	}
	return text, nil
}

// checkText refuses what is no text of a snapshot.
func checkText(data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("the file is larger than %d MiB and no snapshot; name a file that evictd rank --save wrote", MaxBytes>>20)
	}
	if place := bytes.IndexByte(data, 0); place >= 0 {
		return fmt.Errorf("the file has a NUL byte at offset %d and is no text; get the file again", place)
	}
	if !utf8.Valid(data) {
		return errors.New("the file is not UTF-8 text; get the file again")
	}
	return nil
}

// checkJSON makes sure that the text is one JSON value, all of it, and that no field is there
// twice: a reader of values sees the last one alone, and the decoder of pods reads them all.
func checkJSON(text []byte) error {
	var values any
	err := strictly("", text, &values)
	if syntax, offset := kjson.SyntaxErrorOffset(errors.Unwrap(err)); syntax {
		return fmt.Errorf("not JSON at offset %d: %w; get the whole file, or save the snapshot again", offset, errors.Unwrap(err))
	}
	return err
}

// checkYAML looks at the nodes for what the conversion to JSON would hide or say
// without its place.
func checkYAML(data []byte) error {
	documents := yamlnode.NewDecoder(bytes.NewReader(data))
	var first, next yamlnode.Node
	if err := documents.Decode(&first); err != nil {
		return notYAML(err)
	}
	switch err := documents.Decode(&next); {
	case err == nil:
		return fmt.Errorf("line %d starts a second document; keep one", next.Line)
	case !errors.Is(err, io.EOF):
		return notYAML(err)
	}
	return checkNode("", &first)
}

func notYAML(err error) error {
	return fmt.Errorf("not YAML: %s; save the snapshot again", strings.TrimPrefix(err.Error(), "yaml: "))
}

// checkNode refuses aliases, keys that are there twice and figures that are none.
func checkNode(path string, n *yamlnode.Node) error {
	switch {
	case n.Kind == yamlnode.AliasNode:
		return fmt.Errorf("%s: is an alias; write the value out", below(path, ""))
	case n.Tag == "!!float" && strings.ContainsAny(n.Value, "nN"): // .nan, .inf and their spellings
		return fmt.Errorf("%s: %s is no figure; leave the field out where the value is not known", below(path, ""), n.Value)
	}
	here, lines := path, map[string]int{}
	for i, child := range n.Content {
		if n.Kind == yamlnode.SequenceNode {
			here = at(path, i)
		} else if n.Kind == yamlnode.MappingNode && i%2 == 0 {
			here = below(path, child.Value)
			if first, twice := lines[child.Value]; twice {
				return fmt.Errorf("%s: is there twice, in lines %d and %d; keep one", here, first, child.Line)
			}
			lines[child.Value] = child.Line
			continue
		}
		if err := checkNode(here, child); err != nil {
			return err
		}
	}
	return nil
}
