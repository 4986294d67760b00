package strictyaml

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

// MaxBytes bounds what is read as a document: what is larger is some other file. A ConfigMap cannot be larger either.
const MaxBytes = 1 << 20

// Form is what a file must hold: one document of a kind.
type Form struct {
	// APIVersion and Kind are what the document must say it is; What it is in a sentence, such as "configuration".
	APIVersion, Kind, What string
	// Key is the key of the document's text in a ConfigMap.
	Key string
}

// ReadFile returns a file's content, cut off one byte behind what it may have: [Faults.Read] refuses that. Its error
// says what the file was to be.
func ReadFile(path, what string) (content []byte, err error) {
	file, err := os.Open(filepath.Clean(path))
	if err == nil {
		defer file.Close() //nolint:errcheck // it was read
		content, err = io.ReadAll(io.LimitReader(file, MaxBytes+1))
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return content, nil
}

// Read reads the document of a text, which its faults call by the name, into a value, and reports whether that can be
// validated. The text may be a manifest with the document in it, or with a ConfigMap that has it as a text. Call End after
// the validation.
func (f *Faults) Read(name string, data []byte, form *Form, into any) bool {
	f.file, f.form, f.places, f.forms = name, form, map[string]int{}, map[string]*field.Error{}
	if len(data) > MaxBytes {
		f.at(1, "is larger than 1 MiB: not a "+form.What)
		return false
	}
	found := f.find(data)
	if len(f.all) > 0 {
		return false
	}
	document, root := found[0].document, found[0].document.Content[0]
	f.above, f.only, f.places[""] = found[0].above, found[0].only, root.Line
	lines := bytes.SplitAfterN(found[0].text, []byte("\n"), document.Line)
	f.content = append(bytes.Repeat([]byte("\n"), document.Line-1), lines[len(lines)-1]...) // from its line on
	// The conversion is the kubelet's, so that a text is a number or a string to both. It reads the first document alone.
	text := try(f, f.content, yaml.YAMLToJSON)
	var values map[string]any
	switch {
	case len(f.all) > 0:
		return false
	case decode(json.RawMessage(text), &values) != nil:
		f.at(root.Line, "holds one value, and not fields and values")
		return false
	}
	if f.fit(nil, values, *root, reflect.TypeOf(into).Elem()); f.unfit {
		return false // what is missing would be at fault
	}
	if err := decode(values, into); err != nil {
		f.at(root.Line, err.Error()) // none: what fits is decoded
	}
	return true
}

// End adds what a validation may have found in better words: values in another form than their fields', and fields that are
// there twice.
func (f *Faults) End() {
	for _, form := range f.forms {
		f.Add(form)
	}
	if len(f.all) == 0 {
		try(f, f.content, yaml.YAMLToJSONStrict) // a key that is there twice, as others are merged
	}
}

// source is a document in a file: a document of a text, and what [Faults] has of that.
type source struct {
	document    *yamlnode.Node
	kind        string
	text        []byte
	above, only int
}

// find returns the one document of the kind in a text, and adds a fault where there is none or a second one. A document that does not say
// its kind is taken for one: validation asks for the kind.
func (f *Faults) find(text []byte) (found []source) {
	// The line breaks of YAML 1.1, which its libraries count.
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	text = []byte(breaks.Replace(string(text)))
	all := try(f, text, documents)
	others, line := []string{}, 0
	for _, document := range all {
		kinds := append(valuesOf(document.Content, "kind"), &yamlnode.Node{})
		line = cmp.Or(line, kinds[0].Line)
		switch kind := kinds[0].Value; {
		case kind == f.form.Kind, kind == "", kinds[0].Tag != "!!str":
			found = append(found, source{document, kind, text, f.above, f.only})
		case kind == "ConfigMap" && f.above == 0:
			found = append(found, f.held(valuesOf(document.Content, "data"))...)
			fallthrough
		default:
			others = append(others, withArticle(kind))
		}
	}
	switch {
	case len(f.all) > 0:
	case len(all) == 0:
		f.at(1+len(text)-len(bytes.TrimLeft(text, "\n")), "has no text: it must hold apiVersion "+f.form.APIVersion+" and kind "+f.form.Kind)
	case len(found) == 0:
		f.at(line, "kind: "+wording.Few(others)+", not "+withArticle(f.form.Kind)+" or a ConfigMap with one in its key "+f.form.Key)
	case len(found) > 1:
		f.above, f.only = found[1].above, found[1].only
		f.at(found[1].document.Line, "is a second "+f.form.What+": leave one")
	}
	return found
}

// held returns the documents in the data of a ConfigMap: the text of the chart's key, else those of the first texts that are one.
func (f *Faults) held(data []*yamlnode.Node) (all []source) {
	texts, ours := valuesOf(data, f.form.Key), true
	if len(texts) == 0 {
		texts, ours = valuesOf(data, ""), false
	}
	for _, text := range texts[:min(len(texts), 32)] { // an alias can have one text again and again
		inside := &Faults{form: f.form, above: text.Line}
		if text.Style&yamlnode.LiteralStyle == 0 {
			inside.only = text.Line
		}
		found := inside.find([]byte(text.Value))
		if ours || len(found) == 1 && found[0].kind == f.form.Kind {
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
func try[T any](f *Faults, text []byte, read func([]byte) (T, error)) T {
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

// withArticle puts a or an before a kind.
func withArticle(kind string) string {
	return "a" + strings.Repeat("n", strings.Count("AEIOU", kind[:1])) + " " + kind
}
