package chart

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Objects are Kubernetes objects by kind, namespace and name.
type Objects map[string]map[string]any

// add adds the object of a YAML document.
func (o Objects) add(t *testing.T, text string) {
	t.Helper()
	object := parse(t, text)
	meta, _ := object["metadata"].(map[string]any)
	key := fmt.Sprint(object["kind"], " ", meta["name"])
	if in, ok := meta["namespace"]; ok {
		key = fmt.Sprint(object["kind"], " ", in, "/", meta["name"])
	}
	if _, twice := o[key]; twice {
		t.Errorf("%s is there twice", key)
	}
	o[key] = object
}

// Changes returns how other differs from o, one line for each field: "KEY PATH = VALUE" for a
// field that is new or has another value, "KEY PATH gone", and "KEY added" or "KEY gone" for a
// whole object. The order of lists whose elements have a name or a mount path does not count.
func (o Objects) Changes(other Objects) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if _, ok := other[key]; !ok {
			lines = append(lines, key+" gone")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(other)) {
		before, ok := o[key]
		if !ok {
			lines = append(lines, key+" added")
			continue
		}
		was, is := fields(before), fields(other[key])
		for _, path := range slices.Sorted(maps.Keys(was)) {
			if _, ok := is[path]; !ok {
				lines = append(lines, key+" "+path+" gone")
			}
		}
		for _, path := range slices.Sorted(maps.Keys(is)) {
			if old, ok := was[path]; !ok || old != is[path] {
				lines = append(lines, key+" "+path+" = "+is[path])
			}
		}
	}
	return lines
}

// fields returns the object's fields by path, with their values as JSON.
func fields(object map[string]any) map[string]string {
	all := map[string]string{}
	collect(all, "", object)
	return all
}

func collect(into map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) > 0 {
			for name, field := range value {
				collect(into, strings.TrimPrefix(path+"."+name, "."), field)
			}
			return
		}
	case []any:
		if names := elements(value); names != nil {
			for i, element := range value {
				collect(into, path+"["+names[i]+"]", element)
			}
			return
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	into[path] = string(text)
}

// elements returns what distinguishes the elements of a list of objects; nil for another list,
// whose order counts.
func elements(list []any) []string {
	var names []string
	for i, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			return nil
		}
		mountPath, _ := object["mountPath"].(string)
		name, _ := object["name"].(string)
		names = append(names, cmp.Or(mountPath, name, fmt.Sprint(i)))
	}
	return names
}
