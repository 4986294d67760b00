package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Duration is a duration that a file writes with its unit, such as 30s.
type Duration struct{ time.Duration }

// MarshalJSON writes the duration as Go does.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a duration; null changes nothing, as for every other field. The decoder adds
// the field's path to its error: that of [metav1.Duration] names no field.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var written *string
	err := json.Unmarshal(text, &written)
	if err == nil && written != nil {
		d.Duration, err = time.ParseDuration(*written)
	}
	if err != nil {
		return &json.UnmarshalTypeError{Value: string(text), Type: reflect.TypeFor[Duration]()}
	}
	return nil
}

// UnmarshalJSON reads a word, or the bool that earlier versions had, which a bare off is in YAML too; null changes
// nothing. The validation names what is neither.
func (t *TaintNode) UnmarshalJSON(text []byte) error {
	switch written := string(text); {
	case written == "true":
		*t = TaintHard
	case written == "false":
		*t = TaintOff
	case json.Unmarshal(text, (*string)(t)) != nil:
		*t = TaintNode(written)
	}
	return nil
}

// unknown adds the fields that the configuration does not have, as the decoder found them.
func (f *faults) unknown(errs []error) {
	for _, err := range errs {
		if unknown, ok := errors.AsType[kjson.FieldError](err); ok {
			f.add(field.Forbidden(field.NewPath(unknown.FieldPath()), "unknown field: correct its name, or remove it"))
		}
	}
}

// unfit returns the decoder's error about a value of the wrong type. It is the only fault that is
// reported then: the decoder returns the first one, and what it could not read would seem missing.
func unfit(text []byte, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return fmt.Errorf("parsing configuration: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("parsing configuration: the file holds one value, of the type %s, and not fields and values", wrong.Value)
	}
	path, value, must := field.NewPath(wrong.Field), any(json.RawMessage(wrong.Value)), allowed(wrong.Type)
	if wrong.Type != reflect.TypeFor[Duration]() {
		seek := seeker{Decoder: json.NewDecoder(bytes.NewReader(text)), offset: wrong.Offset}
		seek.UseNumber()
		path, value = seek.value(nil, strings.Count(wrong.Field, ".")+1)
	}
	if _, open := value.(json.Delim); open {
		value, must = field.OmitValueType{}, must+", not an "+wrong.Value
	}
	f := &faults{}
	f.add(field.TypeInvalid(path, value, must))
	return f.err()
}

// allowed says what a value of the type is in a file.
func allowed(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return mustBeDuration
	}
	return map[reflect.Kind]string{
		reflect.String: "must be text in quotes",
		reflect.Bool:   "must be true or false",
		reflect.Int32:  fmt.Sprintf("must be a whole number from %d to %d, without quotes", math.MinInt32, math.MaxInt32),
		reflect.Slice:  "must be a list",
		reflect.Map:    "must hold keys and values",
		reflect.Struct: "must hold fields and values",
	}[t.Kind()]
}

const mustBeDuration = `must be a duration with a unit, like "30s" or "1m30s"`

// seeker looks for the value at the offset of a [json.UnmarshalTypeError]: where a plain value ends,
// or an object or a list begins. The error's field has neither the places in lists nor the keys of
// maps.
type seeker struct {
	*json.Decoder
	offset int64
}

// value returns the path of the value in question and its first token, or nil where it is not in the
// next value. As many names as there are fields are those of fields, and a further one is a map's key.
func (s *seeker) value(path *field.Path, fields int) (*field.Path, json.Token) {
	token, err := s.Token()
	if err != nil || s.InputOffset() >= s.offset {
		return path, token
	}
	if token != json.Delim('{') && token != json.Delim('[') {
		return nil, nil
	}
	for i := 0; s.More(); i++ {
		at, left := path.Index(i), fields
		if token == json.Delim('{') {
			name, _ := s.Token()
			if at, left = path.Child(fmt.Sprint(name)), fields-1; fields == 0 {
				at = path.Key(fmt.Sprint(name))
			}
		}
		if found, value := s.value(at, left); found != nil {
			return found, value
		}
	}
	_, _ = s.Token() // the end of the object or the list
	return nil, nil
}
