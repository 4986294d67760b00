package config

import (
	"encoding/json"

	"github.com/evictd/evictd/internal/strictyaml"
)

// form is that of the chart and of deploy/daemonset.yaml.
var form = strictyaml.Form{APIVersion: APIVersion, Kind: Kind, What: "configuration", Key: "evictd.yaml"} //nolint:gochecknoglobals // a constant

// faults collects what is wrong with a configuration, and the keys of the labels that it names.
type faults struct {
	strictyaml.Faults

	labelKeys []string
}

// Load returns the configuration in the file at path, completed by the defaults and validated. The file may be a manifest with one
// in it, as a document or as a text in a ConfigMap. An Aggregate of k8s.io/apimachinery/pkg/util/errors has the faults of the content,
// one line each: path:line, the field's path, what is wrong, what to do. Any other error says that the file could not be read.
func Load(path string) (*EvictdConfiguration, error) {
	data, err := strictyaml.ReadFile(path, form.What)
	if err != nil {
		return nil, err
	}
	return ParseFile(path, data)
}

// Parse is [ParseFile] of what is no file: its faults have no line.
func Parse(data []byte) (*EvictdConfiguration, error) { return ParseFile("", data) }

// ParseFile is [Load] of data, which its faults call by the name.
func ParseFile(name string, data []byte) (*EvictdConfiguration, error) {
	c, f := base(), &faults{}
	if f.Read(name, data, &form, c) {
		c.complete()
		f.validate(c)
		f.End()
	}
	if err := f.Err("invalid configuration"); err != nil {
		return nil, err
	}
	return c, nil
}

// UnmarshalJSON reads a word, or the bool that earlier versions had, which a bare off is in YAML too.
func (t *TaintNode) UnmarshalJSON(text []byte) error {
	if word, is := map[string]TaintNode{"true": TaintHard, "false": TaintOff}[string(text)]; is {
		*t = word
		return nil
	}
	return json.Unmarshal(text, (*string)(t))
}
