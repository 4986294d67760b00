package status

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
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

func decode(data []byte) (*Document, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\uFEFF"))) // an editor's byte order mark
	switch {
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("it is larger than %d MiB", MaxBytes>>20)
	case !utf8.Valid(text):
		return nil, errors.New("it is not UTF-8 text")
	}
	if err := checkHead(text); err != nil {
		return nil, err
	}
	var parts struct {
		Document

		Configuration json.RawMessage `json:"configuration"`
	}
	strict, err := kjson.UnmarshalStrict(text, &parts)
	if err != nil {
		return nil, placed(err, text)
	}
	if len(strict) > 0 {
		return nil, strict[0] // with its path
	}
	d := &parts.Document
	var compact bytes.Buffer // a tab between two values is JSON and no YAML
	_ = json.Compact(&compact, parts.Configuration)
	if d.Configuration, err = config.Parse(compact.Bytes()); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return d, cmp.Or(d.checkMissing(text), d.validate())
}

// checkHead refuses a text that is something else, before its fields are looked at: each of them would be
// unknown.
func checkHead(text []byte) error {
	var head struct {
		APIVersion    string `json:"apiVersion"`
		Kind          string `json:"kind"`
		EvictdVersion string `json:"evictdVersion"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return placed(err, text)
	}
	if head.Kind != Kind || head.APIVersion != APIVersion {
		return fmt.Errorf("it is %q of %q, made by evictd %q, and must be %s of %s", head.Kind, head.APIVersion, head.EvictdVersion, Kind, APIVersion)
	}
	return nil
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

// checkMissing makes sure that every field is there that is always written: the library leaves one
// that is missing, or null, at 0.
func (d *Document) checkMissing(text []byte) error {
	var written bytes.Buffer
	if err := d.Write(&written); err != nil {
		return err
	}
	var want, have any
	if err := errors.Join(json.Unmarshal(written.Bytes(), &want), json.Unmarshal(text, &have)); err != nil {
		return err
	}
	if path := missing("", want, have); path != "" {
		return fmt.Errorf("%s: is missing, and missing is not 0", path)
	}
	return nil
}

// missing returns the path of a value that have lacks; "" where it lacks none.
func missing(path string, want, have any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := have.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			below := path + "." + name
			if path == "" && name == "configuration" {
				continue // its defaults may be left out
			}
			if fields[name] == nil && want[name] != nil {
				return below[1:]
			}
			if lacks := missing(below, want[name], fields[name]); lacks != "" {
				return lacks
			}
		}
	case []any:
		items, _ := have.([]any)
		for i := range min(len(want), len(items)) {
			if lacks := missing(fmt.Sprintf("%s[%d]", path, i), want[i], items[i]); lacks != "" {
				return lacks
			}
		}
	}
	return ""
}

// validate says what is wrong with the values, taken together: the first fault; nil when nothing is.
func (d *Document) validate() error {
	switch {
	case d.NodeName == "":
		return errors.New("nodeName: is empty")
	case d.Pods == nil:
		return errors.New("pods: is missing")
	}
	places := map[string]string{}
	for i := range d.Signals {
		if err := d.Signals[i].validate(fmt.Sprintf("signals[%d]", i), places); err != nil {
			return err
		}
	}
	for i := range d.Pods {
		if err := d.Pods[i].validate(fmt.Sprintf("pods[%d]", i), places, mostUsed/int64(len(d.Pods))); err != nil {
			return err
		}
	}
	return nil
}

// mostUsed bounds what all pods use together, 1 EiB, so that no sum of their figures overflows.
const mostUsed = 1 << 60

// once refuses a key that an earlier place has too.
func once(places map[string]string, here, key string) error {
	if first, twice := places[key]; twice {
		return fmt.Errorf("%s: %q is that of %s too", here, key, first)
	}
	places[key] = here
	return nil
}

func (s *Signal) validate(here string, places map[string]string) error {
	known := s.Available != nil && s.Capacity != nil
	switch {
	case s.State != pressure.Known.String() && s.State != pressure.Unknown.String() && s.State != pressure.Absent.String():
		return fmt.Errorf("%s.state: %q is none of Known, Unknown and Absent", here, s.State)
	case (s.State == pressure.Known.String()) != known || (s.Available == nil) != (s.Capacity == nil):
		return fmt.Errorf("%s: is %s, and a signal has available and capacity exactly when it is Known", here, s.State)
	case known && *s.Capacity < 0: // a working set may be above its limit, so available may be below 0
		return fmt.Errorf("%s.capacity: %d is negative", here, *s.Capacity)
	}
	return once(places, here, s.Name.String())
}

func (p *Pod) validate(here string, places map[string]string, most int64) error {
	if p.Pod == nil || p.Name == "" || p.Namespace == "" || p.UID == "" {
		return fmt.Errorf("%s: name, namespace and uid must be there", here)
	}
	return cmp.Or(
		checkFigures(here, p.used(), most),
		checkFigures(here, map[string]*int64{
			"gracePeriodSeconds": &p.GraceSeconds, "memoryRequest": &p.MemoryRequest, "ephemeralStorageRequest": &p.StorageRequest,
		}, math.MaxInt64),
		once(places, here+".uid", p.UID), once(places, here, p.Key()),
	)
}

// used returns the figures of what the pod uses; nil is not known.
func (p *Pod) used() map[string]*int64 {
	used := map[string]*int64{"tasks": p.Tasks}
	if m := p.Memory; m != nil {
		maps.Copy(used, map[string]*int64{
			"memory.workingSet": &m.WorkingSet, "memory.anonymous": &m.Anonymous, "memory.shared": &m.Shared, "memory.kernel": m.Kernel,
		})
	}
	for _, signal := range pressure.Signals() {
		if n, known := p.Disk.Of(signal); known {
			used["disk."+signal.String()] = &n
		}
	}
	return used
}

// checkFigures refuses what is negative or above most, in the order of the names; nil is not known.
func checkFigures(here string, figures map[string]*int64, most int64) error {
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		switch n := figures[name]; {
		case n == nil:
		case *n < 0:
			return fmt.Errorf("%s.%s: %d is negative", here, name, *n)
		case *n > most:
			return fmt.Errorf("%s.%s: %d is more than the %d that a pod of this node can use", here, name, *n, most)
		}
	}
	return nil
}
