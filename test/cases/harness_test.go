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
		"belong together":                           head + "fails: true\nwant: {exit: 0}\n",
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

func TestVerdict(t *testing.T) {
	t.Parallel()
	web, db := Want{Evicts: &[]string{"web"}}, Want{Evicts: &[]string{"db"}}
	for name, test := range map[string]struct {
		of      Case
		evicted []string
		says    string // "" is a case that passes
	}{
		"as wanted":                {Case{Want: web}, []string{"web"}, ""},
		"another":                  {Case{Want: web}, []string{"db"}, "evicts [web]: seen [db]"},
		"one more":                 {Case{Want: web}, []string{"web", "db"}, "evicts [web]: seen [web, db]"},
		"marked, as today":         {Case{Fails: true, Want: web, Today: &db}, []string{"db"}, ""},
		"marked, and fixed":        {Case{Fails: true, Want: web, Today: &db}, []string{"web"}, "remove `fails: true`"},
		"marked, neither of these": {Case{Fails: true, Want: web, Today: &db}, nil, "not as `today` says"},
	} {
		got := test.of.verdict(&Seen{evicted: test.evicted})
		if (test.says == "") != (got == "") || !strings.Contains(got, test.says) {
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
}

// A fragment that was not said is shown beside what was said in its place.
func TestNearest(t *testing.T) {
	t.Parallel()
	said := []string{"reading the kubelet's file", "evicting pod web of node a", "other"}
	want := Want{Says: []string{"evicting pod db"}}
	if got := strings.Join(want.unmet(&Seen{log: strings.Join(said, "\n")}), "\n"); !strings.Contains(got, "nearest: "+said[1]) {
		t.Errorf("%q", got)
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
