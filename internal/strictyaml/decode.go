package strictyaml

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// decode decodes a value that was read as JSON before.
func decode(value, into any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, into)
	}
	return err
}

// fit returns a value as the type of its field takes it, else nil, and adds all that is wrong with its form. Node is where the file has
// it. What fits in quotes, or with the unit of seconds, is taken so, and thus validated before a fault advises to write it.
func (f *Faults) fit(path *field.Path, value any, node yamlnode.Node, t reflect.Type) any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	node = *cmp.Or(node.Alias, &node)
	switch below := value.(type) {
	case map[string]any:
		if t.Kind() == reflect.Map || len(typesOf(t)) > 0 {
			return f.fitEntries(path, below, node, t)
		}
		value = field.OmitValueType{}
	case []any:
		if t.Kind() == reflect.Slice {
			return f.fitItems(path, below, node, t)
		}
		value = field.OmitValueType{}
	default:
		if decode(value, reflect.New(t).Interface()) == nil {
			return value
		}
		written := cmp.Or(node.Value, fmt.Sprint(value))
		if _, err := strconv.ParseFloat(written, 64); err == nil && t == reflect.TypeFor[metav1.Duration]() {
			written += "s"
		}
		if decode(written, reflect.New(t).Interface()) == nil {
			f.forms[path.String()] = field.TypeInvalid(path, value, fmt.Sprintf("write %q", written))
			return written
		}
	}
	f.unfit = true
	f.Add(field.TypeInvalid(path, value, taken(t)))
	return nil
}

// fitItems fits what a list holds.
func (f *Faults) fitItems(path *field.Path, values []any, node yamlnode.Node, t reflect.Type) any {
	for i := range values {
		var item yamlnode.Node
		if i < len(node.Content) {
			item = *node.Content[i]
		}
		f.places[path.Index(i).String()] = item.Line
		values[i] = f.fit(path.Index(i), values[i], item, t.Elem())
	}
	return values
}

// fitEntries fits what a block or a map holds. A field without a value counts as one that is left out.
func (f *Faults) fitEntries(path *field.Path, values map[string]any, node yamlnode.Node, t reflect.Type) any {
	at, fields, nodes := path.Key, typesOf(t), map[string]yamlnode.Node{}
	if t.Kind() != reflect.Map {
		at = func(name string) *field.Path { return path.Child(name) }
	}
	for i := 1; i < len(node.Content); i += 2 {
		name := node.Content[i-1].Value
		f.places[at(name).String()] = node.Content[i-1].Line
		if _, twice := nodes[name]; twice && name != "<<" {
			f.Add(field.Forbidden(at(name), "is there twice: remove one of the two"))
		}
		nodes[name] = *node.Content[i]
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		of, known := fields[name]
		switch {
		case t.Kind() == reflect.Map:
			values[name] = f.fit(at(name), values[name], nodes[name], t.Elem())
		case !known:
			left := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(other string) bool { return values[other] != nil })
			f.Add(field.Forbidden(at(name), "unknown field: "+Meant(name, left, "correct its name, or remove it")))
		case values[name] == nil:
			delete(values, name)
		default:
			values[name] = f.fit(at(name), values[name], nodes[name], of)
		}
	}
	return values
}

// typesOf returns the types of a block's fields by their names; none of another type.
func typesOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		for member := range t.Fields() {
			if name, _, _ := strings.Cut(member.Tag.Get("json"), ","); name != "" {
				fields[name] = member.Type
			}
		}
	}
	return fields
}

// taken says what a field of the type takes. The example of a duration is valid for each.
func taken(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return `must be a duration with a unit, like "1s"`
	case reflect.TypeFor[resource.Quantity]():
		return `must be an amount, like "512Mi"`
	}
	return map[reflect.Kind]string{
		reflect.String: "must be text in quotes",
		reflect.Bool:   "must be true or false, without quotes",
		reflect.Int32:  fmt.Sprintf("must be a whole number of at most %d, without quotes", math.MaxInt32),
		reflect.Slice:  "must be a list",
		reflect.Map:    "must hold keys and values",
		reflect.Struct: "must hold fields and values",
	}[t.Kind()]
}
