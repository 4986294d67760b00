package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/wording"
)

// MaxFileBytes bounds what is read as a configuration: what is larger is some other file. A ConfigMap cannot be larger either.
const MaxFileBytes = 1 << 20

// configMapKey is the key of the configuration in the ConfigMap of the chart and of deploy/daemonset.yaml.
const configMapKey = "evictd.yaml"

// Load returns the configuration in the file at path, completed by the defaults and validated. The file may be a manifest with one
// in it, as a document or as a text in a ConfigMap. An Aggregate of k8s.io/apimachinery/pkg/util/errors has the faults of the content,
// one line each: path:line, the field's path, what is wrong, what to do. Any other error says that the file could not be read.
func Load(path string) (*EvictdConfiguration, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return ParseFile(path, data)
}

// read returns the file's content, cut off one byte behind what it may have: [ParseFile] refuses that.
func read(path string) (_ []byte, err error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	return data, nil
}

// Parse is [ParseFile] of what is no file: its faults have no line.
func Parse(data []byte) (*EvictdConfiguration, error) { return ParseFile("", data) }

// ParseFile is [Load] of data, which its faults call by the name.
func ParseFile(name string, data []byte) (*EvictdConfiguration, error) {
	c, f := base(), &faults{file: name, places: map[string]int{}, forms: map[string]*field.Error{}}
	f.parse(data, c)
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// parse reads a file into the base of a configuration, which is of no use where it adds faults.
func (f *faults) parse(data []byte, c *EvictdConfiguration) {
	if len(data) > MaxFileBytes {
		f.at(1, "is larger than 1 MiB: not a configuration")
		return
	}
	found := f.find(data)
	if len(f.all) > 0 {
		return
	}
	document, root := found[0].document, found[0].document.Content[0]
	f.above, f.only, f.places[""] = found[0].above, found[0].only, root.Line
	lines := bytes.SplitAfterN(found[0].text, []byte("\n"), document.Line)
	content := append(bytes.Repeat([]byte("\n"), document.Line-1), lines[len(lines)-1]...) // from its line on
	// The conversion is the kubelet's, so that a text is a number or a string to both. It reads the first document alone.
	text := try(f, content, yaml.YAMLToJSON)
	var values map[string]any
	switch {
	case len(f.all) > 0:
		return
	case decode(json.RawMessage(text), &values) != nil:
		f.at(root.Line, "holds one value, and not fields and values")
		return
	}
	if f.fit(nil, values, *root, reflect.TypeFor[EvictdConfiguration]()); f.unfit {
		return // what is missing would be at fault
	}
	if err := decode(values, c); err != nil {
		f.at(root.Line, err.Error()) // none: what fits is decoded
	}
	c.complete()
	f.validate(c)
	for _, form := range f.forms {
		f.add(form)
	}
	if len(f.all) == 0 {
		try(f, content, yaml.YAMLToJSONStrict) // a key that is there twice, as others are merged
	}
}

// source is a configuration in a file: a document of a text, and what [faults] has of that.
type source struct {
	document    *yamlnode.Node
	kind        string
	text        []byte
	above, only int
}

// find returns the one configuration of a text, and adds a fault where there is none or a second one. A document that does not say
// its kind is taken for one: validation asks for the kind.
func (f *faults) find(text []byte) (found []source) {
	// The line breaks of YAML 1.1, which its libraries count.
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	text = []byte(breaks.Replace(string(text)))
	all := try(f, text, documents)
	others, line := []string{}, 0
	for _, document := range all {
		kinds := append(valuesOf(document.Content, "kind"), &yamlnode.Node{})
		line = cmp.Or(line, kinds[0].Line)
		switch kind := kinds[0].Value; {
		case kind == Kind, kind == "", kinds[0].Tag != "!!str":
			found = append(found, source{document, kind, text, f.above, f.only})
		case kind == "ConfigMap" && f.above == 0:
			found = append(found, f.held(valuesOf(document.Content, "data"))...)
			fallthrough
		default:
			others = append(others, "a"+strings.Repeat("n", strings.Count("AEIOU", kind[:1]))+" "+kind)
		}
	}
	switch {
	case len(f.all) > 0:
	case len(all) == 0:
		f.at(1+len(text)-len(bytes.TrimLeft(text, "\n")), "has no text: it must hold apiVersion "+APIVersion+" and kind "+Kind)
	case len(found) == 0:
		f.at(line, "kind: "+wording.Few(others)+", not an "+Kind+" or a ConfigMap with one in its key "+configMapKey)
	case len(found) > 1:
		f.above, f.only = found[1].above, found[1].only
		f.at(found[1].document.Line, "is a second configuration: leave one")
	}
	return found
}

// held returns the configurations in the data of a ConfigMap: the text of the chart's key, else those of the first texts that are one.
func (f *faults) held(data []*yamlnode.Node) (all []source) {
	texts, ours := valuesOf(data, configMapKey), true
	if len(texts) == 0 {
		texts, ours = valuesOf(data, ""), false
	}
	for _, text := range texts[:min(len(texts), 32)] { // an alias can have one text again and again
		inside := &faults{above: text.Line}
		if text.Style&yamlnode.LiteralStyle == 0 {
			inside.only = text.Line
		}
		found := inside.find([]byte(text.Value))
		if ours || len(found) == 1 && found[0].kind == Kind {
			all, f.all = append(all, found...), append(f.all, inside.all...)
		}
	}
	return all
}

// valuesOf returns the values that maps have of a key, or of all keys for "". Decoding would compare each key with each.
func valuesOf(maps []*yamlnode.Node, key string) (all []*yamlnode.Node) {
	for _, in := range maps {
		for i := 1; i < len(in.Content) && in.Kind == yamlnode.MappingNode; i += 2 {
			if key == "" || in.Content[i-1].Value == key {
				all = append(all, cmp.Or(in.Content[i].Alias, in.Content[i]))
			}
		}
	}
	return all
}

// documents returns the documents of a YAML text that are not empty.
func documents(text []byte) (all []*yamlnode.Node, _ error) {
	for decoder := yamlnode.NewDecoder(bytes.NewReader(text)); ; {
		var document yamlnode.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case document.Content[0].Tag != "!!null":
			all = append(all, &document)
		}
	}
}

// try returns what a function of a YAML library reads from a text, and adds its error in words for people. The line is the first
// with which the text gives that error: the library's own is where the block began, the one before, or none.
func try[T any](f *faults, text []byte, read func([]byte) (T, error)) T {
	result, err := read(text)
	if err == nil {
		return result
	}
	first := regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\n +)?(?:line \d+: )?(.*)`).FindStringSubmatch // of several faults
	lines := bytes.SplitAfter(text, []byte("\n"))
	line := 1 + sort.Search(len(lines)-1, func(n int) bool {
		_, again := read(bytes.Join(lines[:n+1], nil))
		return again != nil && first(again.Error())[0] == first(err.Error())[0]
	})
	says := first(err.Error())[1]
	switch {
	case strings.Contains(says, "map key"):
		says = "a key must be text"
	case strings.HasPrefix(says, "json: "):
		says = "a number must be finite"
	}
	f.at(line, "not YAML: "+says)
	return result
}
