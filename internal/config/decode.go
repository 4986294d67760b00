package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlnode "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/wording"
)

// decoder fills a configuration from JSON values. Unlike encoding/json it continues after a fault,
// so that all faults of a file are found in one run: a value that does not fit is recorded and left
// out, and the rest is decoded.
type decoder struct {
	faults field.ErrorList
	// broken holds the paths of values that were left out. They are in the file, so a rule that
	// checks whether something is set must not report it as missing.
	broken map[string]bool
}

// decode fills c with what fits. Its error is a fault of this package, not of the
// file.
func (d *decoder) decode(tree map[string]any, c *EvictdConfiguration) error {
	clean, _ := d.value(nil, reflect.TypeFor[EvictdConfiguration](), tree)
	fitting, err := json.Marshal(clean)
	if err != nil {
		return err
	}
	return json.Unmarshal(fitting, c)
}

// value returns what of v fits the type, and whether anything does.
func (d *decoder) value(path *field.Path, t reflect.Type, v any) (any, bool) {
	if t == reflect.TypeFor[metav1.Duration]() {
		return v, d.duration(path, v)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.value(path, t.Elem(), v)
	case reflect.Struct:
		return d.fields(path, t, v)
	case reflect.Map:
		return d.entries(path, t, v)
	case reflect.Slice:
		return d.items(path, t, v)
	case reflect.String:
		return v, d.isString(path, v)
	case reflect.Bool:
		_, ok := v.(bool)
		return v, ok || d.refuse(path, v, "must be true or false")
	case reflect.Int32:
		return v, d.isInt32(path, v)
	default:
		return nil, d.refuse(path, v, "has a type this program cannot read: "+t.String())
	}
}

// refuse notes that v does not fit and returns false.
func (d *decoder) refuse(path *field.Path, v any, must string) bool {
	d.broken[path.String()] = true
	shown := v
	switch v.(type) {
	case map[string]any, []any, nil:
		must = fmt.Sprintf("%s, not %s", must, describe(v))
		shown = field.OmitValueType{}
	}
	d.faults = append(d.faults, field.TypeInvalid(path, shown, must))
	return false
}

// fields decodes an object of known fields; null is as good as not there, as it
// is to encoding/json.
func (d *decoder) fields(path *field.Path, t reflect.Type, v any) (any, bool) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, d.refuse(path, v, "must hold fields and values")
	}
	clean := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		member, found := fieldOf(t, name)
		if !found {
			d.unknown(path.Child(name), t, name)
			continue
		}
		if object[name] == nil {
			continue
		}
		if fitting, fits := d.value(path.Child(name), member, object[name]); fits {
			clean[name] = fitting
		}
	}
	return clean, true
}

func (d *decoder) unknown(path *field.Path, t reflect.Type, name string) {
	detail := "unknown field: remove it"
	if near := nearest(t, name); near != "" {
		detail = fmt.Sprintf("unknown field: did you mean %s?", near)
	}
	if name == "mergeDefaultEvictionSettings" {
		detail = "unknown field: evictd never merges; write every threshold that you want"
	}
	d.faults = append(d.faults, field.Forbidden(path, detail))
}

// entries decodes a map whose keys the file chooses. A null is an empty text, as
// it is to encoding/json, and is judged as such later.
func (d *decoder) entries(path *field.Path, t reflect.Type, v any) (any, bool) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, d.refuse(path, v, "must hold keys and values")
	}
	clean := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if object[key] == nil {
			clean[key] = ""
			continue
		}
		if fitting, fits := d.value(path.Key(key), t.Elem(), object[key]); fits {
			clean[key] = fitting
		}
	}
	return clean, true
}

func (d *decoder) items(path *field.Path, t reflect.Type, v any) (any, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, d.refuse(path, v, "must be a list")
	}
	clean := make([]any, 0, len(list))
	for i, item := range list {
		fitting, fits := d.value(path.Index(i), t.Elem(), item)
		switch {
		case fits:
			clean = append(clean, fitting)
		case t.Elem().Kind() == reflect.Struct:
			clean = append(clean, map[string]any{}) // or the faults of those behind it name other places
		}
	}
	return clean, true
}

func (d *decoder) isString(path *field.Path, v any) bool {
	switch v.(type) {
	case string:
		return true
	case json.Number, bool:
		return d.refuse(path, v, "must be text: put it in quotes")
	default:
		return d.refuse(path, v, "must be text")
	}
}

func (d *decoder) isInt32(path *field.Path, v any) bool {
	number, ok := v.(json.Number)
	if !ok {
		return d.refuse(path, v, "must be a whole number without quotes")
	}
	if _, err := strconv.ParseInt(number.String(), 10, 32); err != nil {
		return d.refuse(path, v, "must be a whole number between -2147483648 and 2147483647")
	}
	return true
}

func (d *decoder) duration(path *field.Path, v any) bool {
	const must = `must be a duration with a unit, like "30s" or "1m30s"`
	text, ok := v.(string)
	if !ok {
		return d.refuse(path, v, must)
	}
	if _, err := time.ParseDuration(text); err != nil {
		return d.refuse(path, v, must)
	}
	return true
}

// duplicates records every key that an object of the document has twice. YAML readers keep one of
// them without a warning, and a human reader may look at the other.
func (d *decoder) duplicates(document *yamlnode.Node) {
	for _, root := range document.Content {
		d.duplicatesIn(nil, reflect.TypeFor[EvictdConfiguration](), root)
	}
}

// duplicatesIn follows the types along, since a path shows a field and a map's key
// differently; t is nil below an unknown field.
func (d *decoder) duplicatesIn(path *field.Path, t reflect.Type, n *yamlnode.Node) {
	if n.Kind == yamlnode.SequenceNode {
		for i, item := range n.Content {
			d.duplicatesIn(path.Index(i), elem(t, reflect.Slice), item)
		}
	}
	if n.Kind != yamlnode.MappingNode {
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		at, member := path.Child(key.Value), reflect.Type(nil)
		if held := elem(t, reflect.Map); held != nil {
			at, member = path.Key(key.Value), held
		} else if object := dereference(t); object != nil && object.Kind() == reflect.Struct {
			member, _ = fieldOf(object, key.Value)
		}
		if first, twice := lines[key.Value]; twice {
			fault := field.Duplicate(at, field.OmitValueType{})
			fault.Detail = fmt.Sprintf("written in lines %d and %d: keep one", first, key.Line)
			d.faults = append(d.faults, fault)
			continue
		}
		lines[key.Value] = key.Line
		d.duplicatesIn(at, member, item)
	}
}

func dereference(t reflect.Type) reflect.Type {
	if t != nil && t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// elem returns the type of the elements of a t of that kind, or nil.
func elem(t reflect.Type, kind reflect.Kind) reflect.Type {
	t = dereference(t)
	if t == nil || t.Kind() != kind {
		return nil
	}
	return t.Elem()
}

// fieldOf returns the type of the field with that JSON name, in its exact spelling.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for member := range t.Fields() {
		if jsonName(member) == name {
			return member.Type, true
		}
	}
	return nil, false
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// nearest returns the field that name is likely a slip of, or "".
func nearest(t reflect.Type, name string) string {
	const slips = 2
	best, least := "", slips+1
	for member := range t.Fields() {
		known := jsonName(member)
		if strings.EqualFold(known, name) {
			return known
		}
		if n := edits(known, name); n < least && n < len(known)/2 {
			best, least = known, n
		}
	}
	return best
}

// edits counts the characters to insert, remove or replace between two words
// (Levenshtein).
func edits(a, b string) int {
	if len(b) > 2*longest {
		return len(b) // no typo of a field's name; the table would be large without need
	}
	return wording.Distance(a, b)
}

// describe names the kind of a JSON value in words.
func describe(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "fields and values"
	case []any:
		return "a list"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	default:
		return "plain text"
	}
}
