package status

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// MaxBytes bounds a document: one of a thousand pods takes a MiB or two, so that what is larger is some
// other file.
const MaxBytes = 16 << 20

// Read reads a document that an agent made, strictly: a field that is lost or read as 0 would change
// the ranking without a word. Its error is one sentence about the first fault: where it is, what is
// wrong and what to do. See docs/adr/0017.
func Read(r io.Reader) (*Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil {
		var d *Document
		if d, err = decode(data); err == nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("reading the document: %s; name a file that this version's evictd rank --save wrote, or correct it", wording.OneLine(err.Error()))
}

// Write writes what Read reads.
func (d *Document) Write(w io.Writer) error {
	d.APIVersion, d.Kind = APIVersion, Kind
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d); err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}

// Save writes a document to a new file that its owner alone may read. A file that is there already stays.
func Save(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
	if errors.Is(err, os.ErrExist) {
		return errors.New("the file is there already; name another one, or remove it first")
	}
	if err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(path) // it is not whole
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}

// decode reads a document. Own checks add to the library what docs/adr/0017 lists.
func decode(data []byte) (*Document, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\uFEFF"))) // an editor's byte order mark
	switch {
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("it is larger than %d MiB", MaxBytes>>20)
	case !utf8.Valid(text):
		return nil, errors.New("it is not UTF-8 text")
	}
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
		return nil, placed(err, text)
	case len(strict) > 0:
		return nil, strict[0] // with its path
	}
	var compact bytes.Buffer // a tab between two values is JSON and no YAML
	_ = json.Compact(&compact, parts.Configuration)
	if d.Configuration, err = config.Parse(compact.Bytes()); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return d, cmp.Or(d.checkWritten(text), d.validate())
}

// placed adds to a fault the line of the text where it is, as far as the error tells.
func placed(err error, text []byte) error {
	syntax, offset := kjson.SyntaxErrorOffset(err)
	if typed, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		syntax, offset = true, typed.Offset
	}
	if !syntax || offset > int64(len(text)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:offset], []byte("\n")), err)
}

// checkWritten writes what was read again. A field that is written then must be there, since the library leaves
// one that is missing, or null, at 0; and no figure of a pod may be one that a sum of them cannot hold.
func (d *Document) checkWritten(text []byte) error {
	var written bytes.Buffer
	if d.Pods == nil {
		d.Pods = []Pod{}
	}
	if err := d.Write(&written); err != nil {
		return err
	}
	var want, have any
	exact := json.NewDecoder(&written)
	exact.UseNumber()
	if err := errors.Join(exact.Decode(&want), json.Unmarshal(text, &have)); err != nil {
		return err
	}
	return checkFields("", want, have, mostUsed/int64(max(1, len(d.Pods))))
}

// mostUsed bounds what all pods use together, 1 EiB.
const mostUsed = 1 << 60

// checkFields returns the first fault below a path: a value that have lacks, or a figure that no pod can have;
// most is what one can use.
func checkFields(path string, want, have any, most int64) error {
	switch want := want.(type) {
	case map[string]any:
		given, _ := have.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			below := strings.TrimPrefix(path+"."+name, ".")
			if below == "configuration" {
				continue // its defaults may be left out
			}
			if given[name] == nil && want[name] != nil {
				return fmt.Errorf("%s: is missing, and missing is not 0", below)
			}
			if err := checkFields(below, want[name], given[name], most); err != nil {
				return err
			}
		}
	case []any:
		items, _ := have.([]any)
		for i := range min(len(want), len(items)) {
			if err := checkFields(fmt.Sprintf("%s[%d]", path, i), want[i], items[i], most); err != nil {
				return err
			}
		}
	case json.Number:
		return checkFigure(path, want, most)
	}
	return nil
}

// checkFigure refuses a figure of a pod that is negative, or a use above most. A priority may be any.
func checkFigure(path string, figure json.Number, most int64) error {
	of, name, _ := strings.Cut(path, "].")
	if !strings.HasPrefix(of, "pods[") || name == "priority" {
		return nil
	}
	used := name == "tasks" || strings.HasPrefix(name, "memory.") || strings.HasPrefix(name, "disk.")
	switch n, _ := figure.Int64(); { // it was read into one
	case n < 0:
		return fmt.Errorf("%s: %d is negative", path, n)
	case used && n > most:
		return fmt.Errorf("%s: %d is more than the %d that a pod of this node can use", path, n, most)
	}
	return nil
}

// validate says what is wrong with the values, taken together: the first fault; nil when nothing is.
func (d *Document) validate() error {
	if d.NodeName == "" {
		return errors.New("nodeName: is empty")
	}
	places := map[string]string{}
	for i := range d.Signals {
		s, here := &d.Signals[i], fmt.Sprintf("signals[%d]", i)
		if err := cmp.Or(s.validate(here), once(places, here, s.Name.String())); err != nil {
			return err
		}
	}
	for i := range d.Pods {
		p, here := &d.Pods[i], fmt.Sprintf("pods[%d]", i)
		if p.Pod == nil || p.Name == "" || p.Namespace == "" || p.UID == "" {
			return fmt.Errorf("%s: name, namespace and uid must be there", here)
		}
		if err := cmp.Or(once(places, here+".uid", p.UID), once(places, here, p.Key())); err != nil {
			return err
		}
	}
	return nil
}

// once refuses a key that an earlier place has too.
func once(places map[string]string, here, key string) error {
	if first, twice := places[key]; twice {
		return fmt.Errorf("%s: %q is that of %s too", here, key, first)
	}
	places[key] = here
	return nil
}

func (s *Signal) validate(here string) error {
	known := s.Available != nil && s.Capacity != nil
	switch {
	case s.State != pressure.Known.String() && s.State != pressure.Unknown.String() && s.State != pressure.Absent.String():
		return fmt.Errorf("%s.state: %q is none of Known, Unknown and Absent", here, s.State)
	case (s.State == pressure.Known.String()) != known || (s.Available == nil) != (s.Capacity == nil):
		return fmt.Errorf("%s: is %s, and a signal has available and capacity exactly when it is Known", here, s.State)
	case known && *s.Capacity < 0: // a working set may be above its limit, so available may be below 0
		return fmt.Errorf("%s.capacity: %d is negative", here, *s.Capacity)
	}
	return nil
}
