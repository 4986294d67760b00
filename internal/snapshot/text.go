package snapshot

import (
	"bytes"
	"encoding/json"
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
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(trimmed) == 0:
		return nil, errors.New("the file is empty; name a file that evictd rank --save wrote")
	case trimmed[0] == '{':
		return trimmed, checkJSON(trimmed)
	}
	if !bytes.HasSuffix(trimmed, []byte(yamlEnd)) {
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

// checkJSON makes sure that the text is one JSON value, and all of it.
func checkJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	err := decoder.Decode(&value)
	if err == nil {
		if decoder.InputOffset() < int64(len(text)) {
			return fmt.Errorf("at offset %d, after its end, the document goes on; remove what follows", decoder.InputOffset())
		}
		return checkFields(text)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file was cut off: its JSON does not end; get the whole file")
	}
	if syntax, found := errors.AsType[*json.SyntaxError](err); found {
		return fmt.Errorf("not JSON at offset %d: %w; save the snapshot again", syntax.Offset, err)
	}
	return fmt.Errorf("not JSON: %w; save the snapshot again", err)
}

// checkFields refuses fields that are there twice: a reader of values sees the last one
// alone, and the decoder of pods reads them all.
func checkFields(text []byte) error {
	var values any
	twice, err := kjson.UnmarshalStrict(text, &values)
	switch {
	case err != nil:
		return wrongType("", err)
	case len(twice) > 0:
		return strictFault("", twice[0])
	}
	return nil
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
	for _, root := range first.Content {
		if err := checkNode("", root); err != nil {
			return err
		}
	}
	return nil
}

func notYAML(err error) error {
	return fmt.Errorf("not YAML: %s; save the snapshot again", strings.TrimPrefix(err.Error(), "yaml: "))
}

// checkNode refuses aliases, keys that are there twice and figures that are none.
func checkNode(path string, n *yamlnode.Node) error {
	switch n.Kind {
	case yamlnode.AliasNode:
		return fmt.Errorf("%s: is an alias; write the value out", orRoot(path))
	case yamlnode.SequenceNode:
		for i, item := range n.Content {
			if err := checkNode(at(path, i), item); err != nil {
				return err
			}
		}
	case yamlnode.MappingNode:
		return checkMapping(path, n)
	case yamlnode.ScalarNode:
		if n.Tag == "!!float" && strings.ContainsAny(n.Value, "nN") { // .nan, .inf and their spellings
			return fmt.Errorf("%s: %s is no figure; leave the field out where the value is not known", orRoot(path), n.Value)
		}
	case yamlnode.DocumentNode:
	default:
	}
	return nil
}

func checkMapping(path string, n *yamlnode.Node) error {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		here := below(path, key.Value)
		if first, twice := lines[key.Value]; twice {
			return fmt.Errorf("%s: is there twice, in lines %d and %d; keep one", here, first, key.Line)
		}
		lines[key.Value] = key.Line
		if err := checkNode(here, value); err != nil {
			return err
		}
	}
	return nil
}
