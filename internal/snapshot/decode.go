package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
)

// document is a snapshot whose lists are still text, so that a fault can name its entry, which
// the library does not: see docs/adr/0017-strict-snapshots.md.
type document struct {
	NodeSnapshot

	APIVersion    any               `json:"apiVersion"`
	Kind          any               `json:"kind"`
	Time          json.RawMessage   `json:"time"`
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
	if err == nil {
		err = s.Validate()
	}
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
	var parts document
	unread := strictly("", text, &parts)
	if err = cmp.Or(parts.checkHead(), required[NodeSnapshot]("", text), unread); err != nil {
		return nil, err
	}
	s := parts.NodeSnapshot
	s.APIVersion, s.Kind = APIVersion, Kind
	if err = s.Time.UnmarshalJSON(parts.Time); err != nil {
		return nil, fmt.Errorf("time: %s is no time such as 2026-01-02T15:04:05Z; save the snapshot again", shown(parts.Time))
	}
	return &s, cmp.Or(
		s.decodeConfiguration(parts.Configuration),
		entries("signals", parts.Signals, &s.Signals, entry[Signal]),
		entries("usage", parts.Usage, &s.Usage, entry[Usage]),
		entries("disk", parts.Disk, &s.Disk, entry[Disk]),
		entries("budgets", parts.Budgets, &s.Budgets, entry[Budget]),
		entries("pods", parts.Pods, &s.Pods, s.decodePod),
	)
}

// checkHead refuses a document that is something else, before its fields are looked
// at: each of them would be unknown.
func (d *document) checkHead() error {
	switch {
	case d.Kind == config.Kind:
		return errors.New("kind: this is a configuration and no snapshot; pass it by --config")
	case d.Kind != Kind:
		return fmt.Errorf("kind: must be %s, not %s; name a file that evictd rank --save wrote", Kind, shown(d.Kind))
	case d.APIVersion != APIVersion:
		return fmt.Errorf("apiVersion: must be %s, not %s; rank it by the evictd that wrote it (evictdVersion %s)",
			APIVersion, shown(d.APIVersion), shown(d.EvictdVersion))
	}
	return nil
}

// shown is a value of the document in a message.
func shown(v any) string {
	const longest = 60
	text, err := json.Marshal(v)
	switch {
	case v == nil:
		return "missing"
	case err != nil || len(text) > longest:
		return "a long value"
	}
	return string(text)
}

// decodeConfiguration holds the recorded configuration to the rules of a file.
func (s *NodeSnapshot) decodeConfiguration(text json.RawMessage) error {
	var compact bytes.Buffer // a tab between two values is JSON and no YAML
	err := json.Compact(&compact, text)
	if err == nil {
		s.Configuration, err = config.Parse(compact.Bytes())
	}
	if err != nil {
		return fmt.Errorf("configuration: %w; rank it by the evictd that wrote it, or pass another one by --config", err)
	}
	return nil
}

// decodePod takes a pod as a snapshot has it, and as the API server has: with metadata. The
// amounts of the latter are looked at before the library decodes them, which takes time by the
// exponent and does not name the field.
func (s *NodeSnapshot) decodePod(here string, text []byte) (*nodepods.Pod, error) {
	var form struct {
		Metadata json.RawMessage `json:"metadata"`
		Spec     any             `json:"spec"`
		Status   any             `json:"status"`
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&form); err != nil || form.Metadata == nil {
		pod := &nodepods.Pod{}
		err = strictly(here, text, pod)
		pod.CgroupUID = cmp.Or(pod.CgroupUID, pod.UID)
		return pod, err
	}
	if err := cmp.Or(checkAmounts(here+".spec", form.Spec, false), checkAmounts(here+".status", form.Status, false)); err != nil {
		return nil, err
	}
	pod, node, err := nodepods.Decode(func(object any) error { return strictly(here, text, object) })
	if err != nil {
		return nil, err
	}
	if node != "" && node != s.NodeName {
		return nil, fmt.Errorf("%s.spec.nodeName: is %q, and the snapshot is of node %q; keep the pods of one node", here, node, s.NodeName)
	}
	return pod, nil
}

// checkAmounts refuses a value that no pod can have.
func checkAmounts(path string, v any, isAmount bool) error {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := checkAmounts(below(path, name), v[name], isAmount || holdsAmounts(name)); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := checkAmounts(at(path, i), item, isAmount); err != nil {
				return err
			}
		}
	case string, json.Number:
		if !isAmount {
			return nil
		}
		switch amount, err := config.ParseQuantity(fmt.Sprint(v)); {
		case err != nil:
			return fmt.Errorf("%s: %s is no amount that a node has; save the snapshot again", path, shown(v))
		case amount.Sign() < 0:
			return fmt.Errorf("%s: %s is negative; save the snapshot again", path, shown(v))
		}
	}
	return nil
}

// holdsAmounts knows every field of a pod with amounts in it.
func holdsAmounts(name string) bool {
	return slices.Contains([]string{"requests", "limits", "overhead", "allocatedResources", "sizeLimit", "divisor"}, name)
}

// entries decodes a list; nil stays nil.
func entries[T any](path string, raw []json.RawMessage, into *[]T, decode func(path string, text []byte) (T, error)) error {
	if raw == nil {
		return nil
	}
	*into = make([]T, len(raw))
	for i, text := range raw {
		var err error
		if (*into)[i], err = decode(at(path, i), text); err != nil {
			return err
		}
	}
	return nil
}

func entry[T any](path string, text []byte) (decoded T, err error) {
	err = cmp.Or(required[T](path, text), strictly(path, text, &decoded))
	return decoded, err
}

// required makes sure that all fields are there that the type does not omit when it is
// written. The library leaves one that is missing, or null, at 0.
func required[T any](path string, text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return fmt.Errorf("%s: holds no fields; save the snapshot again", below(path, ""))
	}
	advice := "; save the snapshot again"
	if path != "" {
		advice = ", and missing is not 0; leave the whole entry out where it is not known"
	}
	for field := range reflect.TypeFor[T]().Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		if value := fields[name]; option == "" && (value == nil || string(value) == "null") {
			return fmt.Errorf("%s: is missing%s", below(path, name), advice)
		}
	}
	return nil
}

// strictly decodes a value and refuses fields that the type does not have, or that
// are there twice.
func strictly(path string, text []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return wrongType(path, err)
	}
	fault, found := errors.AsType[kjson.FieldError](errors.Join(strict...))
	switch {
	case !found:
		return nil
	case strings.HasPrefix(fault.Error(), "duplicate"):
		return fmt.Errorf("%s: is there twice; keep one", below(path, fault.FieldPath()))
	}
	return fmt.Errorf("%s: a snapshot has no such field; remove it, or rank it by the evictd that wrote it", below(path, fault.FieldPath()))
}

func wrongType(path string, err error) error {
	if typed, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		return fmt.Errorf("%s: holds a %s where a %s belongs; save the snapshot again, or fix the value",
			below(path, strings.TrimPrefix(typed.Field, "NodeSnapshot.")), typed.Value, typed.Type)
	}
	return fmt.Errorf("%s: %w; save the snapshot again, or fix the value", below(path, ""), err)
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// below returns the path of a field; of the document itself where both are empty.
func below(path, field string) string {
	if path != "" && field != "" {
		path += "."
	}
	return cmp.Or(path+field, "the document")
}
