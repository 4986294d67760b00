package cases

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A case that cannot be what its author meant is refused, with its file.
func TestWrongFileIsNamed(t *testing.T) {
	t.Parallel()
	const head = "about: x\n"
	for says, text := range map[string]string{
		`unknown field "wants"`:                     head + "want: {exit: 0}\nwants: {}\n",
		`unknown field "memroy"`:                    head + "pods: [{name: a, memroy: 1Gi}]\nwant: {exit: 0}\n",
		"already set":                               head + head + "want: {exit: 0}\n",
		"want: say what evictd must do":             head,
		"about: say in one sentence":                "want: {exit: 0}\n",
		`command: "rnak"`:                           head + "command: rnak\nwant: {exit: 0}\n",
		"rank evicts no pod":                        head + "command: rank\nwant: {evicts: []}\n",
		"then.diskLeft: the node has no disk":       head + "then: [{diskLeft: 1Mi}]\nwant: {evicts: []}\n",
		"quantities must match the regular express": head + "pods: [{name: a, memory: lots}]\nwant: {exit: 0}\n",
	} {
		path := filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(path); err == nil || !strings.HasPrefix(err.Error(), "mine.yaml: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want the file and %q", text, err, says)
		}
	}
}

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
