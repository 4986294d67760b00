package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
)

// shell is the document with its large parts still as text, so that each of their
// entries can be named by its place.
type shell struct {
	NodeSnapshot

	Configuration json.RawMessage   `json:"configuration"`
	Signals       []json.RawMessage `json:"signals"`
	Pods          []json.RawMessage `json:"pods"`
	Usage         []json.RawMessage `json:"usage"`
	Disk          []json.RawMessage `json:"disk"`
	Budgets       []json.RawMessage `json:"budgets"`
}

// Decode returns the snapshot that data holds, JSON or YAML. Its error is one
// sentence about the first fault: where it is, what is wrong, what to do.
func Decode(data []byte) (*NodeSnapshot, error) {
	s, err := decode(data)
	if err != nil {
		return nil, errors.New("reading the snapshot: " + wording.OneLine(err.Error()))
	}
	return s, nil
}

func decode(data []byte) (*NodeSnapshot, error) {
	text, err := toJSON(data)
	if err != nil {
		return nil, err
	}
	tree, err := treeOf(text)
	if err != nil {
		return nil, err
	}
	if err = checkHead(tree); err != nil {
		return nil, err
	}
	if err = checkTree(tree); err != nil {
		return nil, err
	}
	s, err := fill(text)
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

// treeOf returns the document as values, with numbers as they are written.
func treeOf(text []byte) (map[string]any, error) {
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	var tree any
	if err := numbers.Decode(&tree); err != nil {
		return nil, fmt.Errorf("parsing it: %w", err)
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("the document holds no fields; name a file that evictd rank --save wrote")
	}
	return root, nil
}

// checkHead refuses a document that is something else, before its fields are looked
// at: each of them would be unknown.
func checkHead(tree map[string]any) error {
	kind, version := tree["kind"], tree["apiVersion"]
	switch {
	case kind == config.Kind:
		return errors.New("kind: this is a configuration and no snapshot; pass it by --config")
	case kind != Kind:
		return fmt.Errorf("kind: must be %s, not %s; name a file that evictd rank --save wrote", Kind, shown(kind))
	case version != APIVersion:
		return fmt.Errorf("apiVersion: must be %s, not %s; rank it by the evictd that wrote it (evictdVersion %s)",
			APIVersion, shown(version), shown(tree["evictdVersion"]))
	}
	return nil
}

// shown is a value of the document in a message.
func shown(v any) string {
	const longest = 60
	switch v := v.(type) {
	case nil:
		return "missing"
	case string:
		if len(v) > longest {
			return "a long text"
		}
		return strconv.Quote(v)
	case json.Number:
		if len(v) > longest {
			return "a long number"
		}
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case map[string]any:
		return "fields and values"
	default:
		return "a list"
	}
}

// fill decodes the document part by part.
func fill(text []byte) (*NodeSnapshot, error) {
	var parts shell
	if err := strictly("", text, &parts); err != nil {
		return nil, err
	}
	s := parts.NodeSnapshot
	var err error
	if s.Configuration, err = configurationOf(parts.Configuration); err != nil {
		return nil, err
	}
	if s.Signals, err = entries[Signal]("signals", parts.Signals); err != nil {
		return nil, err
	}
	if s.Usage, err = entries[Usage]("usage", parts.Usage); err != nil {
		return nil, err
	}
	if s.Disk, err = entries[Disk]("disk", parts.Disk); err != nil {
		return nil, err
	}
	if s.Budgets, err = entries[Budget]("budgets", parts.Budgets); err != nil {
		return nil, err
	}
	s.Pods = make([]*nodepods.Pod, 0, len(parts.Pods))
	for i, raw := range parts.Pods {
		here := at("pods", i)
		pod, node, err := nodepods.Decode(raw, func(text []byte, into any) error { return strictly(here, text, into) })
		switch {
		case err != nil:
			return nil, err
		case node != "" && node != s.NodeName:
			return nil, fmt.Errorf("%s.spec.nodeName: is %q, and the snapshot is of node %q; keep the pods of one node", here, node, s.NodeName)
		}
		s.Pods = append(s.Pods, pod)
	}
	return &s, nil
}

// configurationOf holds the recorded configuration to the rules of a file.
func configurationOf(text json.RawMessage) (*config.EvictdConfiguration, error) {
	var compact bytes.Buffer // a tab between two values is JSON and no YAML
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	parsed, err := config.Parse(compact.Bytes())
	if err != nil {
		return nil, fmt.Errorf("configuration: %w; rank it by the evictd that wrote it, or pass another one by --config", err)
	}
	return parsed, nil
}

// entries decodes a list; nil stays nil.
func entries[T any](path string, raw []json.RawMessage) ([]T, error) {
	if raw == nil {
		return nil, nil
	}
	decoded := make([]T, len(raw))
	for i := range raw {
		if err := strictly(at(path, i), raw[i], &decoded[i]); err != nil {
			return nil, err
		}
	}
	return decoded, nil
}

// strictly decodes a value and refuses fields that the type does not have, or that
// are there twice.
func strictly(path string, text []byte, into any) error {
	// The standard library names the field of a wrong type; the other does not.
	if err := json.Unmarshal(text, reflect.New(reflect.TypeOf(into).Elem()).Interface()); err != nil {
		return wrongType(path, err)
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return wrongType(path, err)
	}
	if len(strict) == 0 {
		return nil
	}
	return strictFault(path, strict[0])
}

// strictFault says which field is one too many.
func strictFault(path string, fault error) error {
	field, named := fault.(kjson.FieldError) //nolint:errorlint // the package's own type, never wrapped
	switch {
	case !named:
		return fmt.Errorf("%s: %w", orRoot(path), fault)
	case strings.HasPrefix(fault.Error(), "duplicate"):
		return fmt.Errorf("%s: is there twice; keep one", below(path, field.FieldPath()))
	default:
		return fmt.Errorf("%s: a snapshot has no such field; remove it, or rank it by the evictd that wrote it", below(path, field.FieldPath()))
	}
}

func wrongType(path string, err error) error {
	if typed, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		return fmt.Errorf("%s: holds a %s where a %s belongs; save the snapshot again, or mend the value",
			below(path, typed.Field), typed.Value, typed.Type)
	}
	return fmt.Errorf("%s: %w; save the snapshot again, or mend the value", orRoot(path), err)
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func below(path, field string) string {
	if path == "" || field == "" {
		return orRoot(path + field)
	}
	return path + "." + field
}

func orRoot(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}
