package record

import (
	"reflect"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// inline makes the struct that line points to part of a log line: its fields under the
// names of their json tags, as /debug/decisions has them.
func inline(line any) zap.Field { return zap.Inline(tagged{reflect.ValueOf(line).Elem()}) }

// tagged writes what encoding/json writes of a struct, key by key; a test compares the
// two. Of the options of a tag it knows omitempty.
type tagged struct{ object reflect.Value }

// MarshalLogObject writes the fields.
func (t tagged) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for field, value := range t.object.Fields() {
		key, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case option == "omitempty" && empty(value):
		case field.Anonymous:
			zap.Inline(tagged{reflect.Indirect(value)}).AddTo(enc)
		case value.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			zap.Array(key, taggedList{value}).AddTo(enc)
		default:
			zap.Any(key, value.Interface()).AddTo(enc)
		}
	}
	return nil
}

func empty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	default:
		return value.IsZero()
	}
}

// taggedList is a list of such structs.
type taggedList struct{ objects reflect.Value }

// MarshalLogArray writes the structs.
func (l taggedList) MarshalLogArray(enc zapcore.ArrayEncoder) error {
	for i := range l.objects.Len() {
		if err := enc.AppendObject(tagged{l.objects.Index(i)}); err != nil {
			return err
		}
	}
	return nil
}
