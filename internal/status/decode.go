package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/sets"
	kjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/wording"
)

// Read reads a document that an agent made, strictly: a field that is lost or read as 0 would change
// the ranking without a word. Its error is one sentence about the first fault: the field, what is wrong
// and what to do. See docs/adr/0017.
func Read(r io.Reader) (*Document, error) {
	data, err := io.ReadAll(r)
	if err == nil {
		var d *Document
		if d, err = decode(data, true); err == nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("reading the document: %s; name a file that this version's evictd rank --save wrote, or correct it", wording.OneLine(err.Error()))
}

// ReadRecorded reads a document that an evictd wrote, this one or one before: a field that only one of them knows is at its
// zero value, which a record of before an update has to be read by.
func ReadRecorded(text []byte) (*Document, error) {
	d, err := decode(text, false)
	if err != nil {
		return nil, fmt.Errorf("reading a document of the record: %w", err)
	}
	return d, nil
}

// decode reads a document; exact refuses what this version would not write. Own checks add to the library what docs/adr/0017 lists.
func decode(data []byte, exact bool) (*Document, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\uFEFF"))) // an editor's byte order mark
	var parts struct {
		Document

		Configuration json.RawMessage `json:"configuration"`
	}
	strict, err := kjson.UnmarshalStrict(text, &parts)
	d := &parts.Document
	switch other := d.Kind != Kind || d.APIVersion != APIVersion; {
	case other && (err == nil || d.Kind != ""): // of something else each field would be unknown
		return nil, fmt.Errorf("it is %q of %q, made by evictd %q, and must be %s of %s", d.Kind, d.APIVersion, d.EvictdVersion, Kind, APIVersion)
	case err != nil:
		return nil, err
	case len(strict) > 0 && exact:
		return nil, strict[0] // with its path
	}
	var compact bytes.Buffer // a tab between two values is JSON and no YAML
	_ = json.Compact(&compact, parts.Configuration)
	if d.Configuration, err = config.Parse(compact.Bytes()); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if !exact {
		return d, nil
	}
	return d, d.checkWhole(text)
}

// checkWhole writes what was read again. A field that is written then must be there, since the library leaves
// one that is missing, or null, at 0.
func (d *Document) checkWhole(text []byte) error {
	if d.Pods == nil {
		d.Pods = []Pod{}
	}
	var want, have map[string]any
	written, err := json.Marshal(d) //nolint:musttag // of a request in doubt, which is not in it
	if err = errors.Join(err, json.Unmarshal(written, &want), json.Unmarshal(text, &have)); err != nil {
		return err
	}
	delete(want, "configuration") // its defaults may be left out
	if lacks := sets.New(paths("", want)...).Delete(paths("", have)...); lacks.Len() > 0 {
		return fmt.Errorf("%s: is missing, and missing is not 0", sets.List(lacks)[0][1:])
	}
	return nil
}

// paths returns where a value and all below it are that are not null.
func paths(at string, value any) (all []string) {
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		for name, below := range value {
			all = append(all, paths(at+"."+name, below)...)
		}
	case []any:
		for i, below := range value {
			all = append(all, paths(fmt.Sprintf("%s[%d]", at, i), below)...)
		}
	}
	return append(all, at)
}
