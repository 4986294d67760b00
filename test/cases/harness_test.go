package cases

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// README.md names each field of a case, which is all that its author reads.
func TestREADMENamesEachField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{Case{}, Node{}, Pod{}, Step{}, Want{}} {
		for field := range reflect.TypeOf(of).Fields() {
			if name := field.Tag.Get("json"); !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%T: %s is not in it", of, name)
			}
		}
	}
}
