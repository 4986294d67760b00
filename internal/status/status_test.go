package status_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/internal/testing/ranktest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// full is a document of a node under pressure with one of everything.
func full(t *testing.T) *status.Document {
	t.Helper()
	text, err := os.ReadFile("testdata/full.json")
	must.Succeed(t, err)
	return read(t, string(text))
}

func read(t *testing.T, text string) *status.Document {
	t.Helper()
	d, err := status.Read(strings.NewReader(text))
	must.Succeed(t, err)
	return d
}

func written(t *testing.T, d *status.Document) string {
	t.Helper()
	var text bytes.Buffer
	d.APIVersion, d.Kind = status.APIVersion, status.Kind
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil { //nolint:musttag // of a request in doubt, which is not in it
		t.Fatal(err)
	}
	return text.String()
}

// TestFullDocument: what is read is written back, and the document for people is the golden one. What is in flight, what
// backs off and the limits of owners are in the ranking behind it, each with its reason.
func TestFullDocument(t *testing.T) {
	t.Parallel()
	d := full(t)
	if diff := cmp.Diff(written(t, d), written(t, read(t, written(t, d)))); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if d = read(t, "\uFEFF"+written(t, d)); d.Pods[0].Usage.Tasks != 4 || d.Pods[1].Usage != nil {
		t.Errorf("%+v", d.Pods)
	}
	d.Rank(d.Short())
	var table bytes.Buffer
	must.Succeed(t, d.WriteTable(&table))
	for line := range strings.Lines(table.String()) {
		if utf8.RuneCountInString(line) > 121 {
			t.Errorf("more than 120 columns: %s", line)
		}
	}
	table.WriteString("\n")
	must.Succeed(t, d.WriteRanking(&table, pressure.MemoryAvailable, true))
	golden.Compare(t, "testdata/full.txt", table.String(), *update, "go test ./internal/status -update")
}

// TestThresholds: whether each is met, and what is missing; what is not known is never a no.
func TestThresholds(t *testing.T) {
	t.Parallel()
	met, line := time.Date(2026, 11, 20, 2, 14, 1, 0, time.UTC), int64(100<<20)
	for want, signal := range map[string]status.Signal{
		"hard 100.0Mi no -":                            {State: "Known", Available: new(int64(150 << 20)), Thresholds: []status.Threshold{{Kind: "Hard", Line: &line}}},
		"hard 100.0Mi no, in 12s -":                    {State: "Known", Available: new(int64(150 << 20)), ForecastSeconds: new(12.4), Thresholds: []status.Threshold{{Kind: "Hard", Line: &line}}},
		"soft 100.0Mi no -":                            {State: "Known", Available: new(int64(150 << 20)), ForecastSeconds: new(12.4), Thresholds: []status.Threshold{{Kind: "Soft", Line: &line}}},
		"hard 100.0Mi since 02:14:01Z 60.0Mi":          {State: "Known", Available: new(int64(40 << 20)), Thresholds: []status.Threshold{{Kind: "Hard", Line: &line, Since: met, Holds: true}}},
		"soft 100.0Mi in grace since 02:14:01Z 10.0Mi": {State: "Known", Available: new(int64(90 << 20)), Thresholds: []status.Threshold{{Kind: "Soft", Line: &line, Since: met}}},
		"hard unknown|unknown no such file":            {State: "Unknown", Reason: "no such file", Thresholds: []status.Threshold{{Kind: "Hard"}}},
		"hard unknown|unknown|unknown":                 {State: "Unknown", Thresholds: []status.Threshold{{Kind: "Hard", Since: met, Holds: true}}},
		"hard absent|absent|absent":                    {State: "Absent", Thresholds: []status.Threshold{{Kind: "Hard"}}},
	} {
		d := full(t)
		d.Signals = []status.Signal{signal}
		d.Rank(pressure.MemoryAvailable)
		var ranking, all bytes.Buffer
		must.Succeed(t, d.WriteRanking(&ranking, pressure.MemoryAvailable, false), d.WriteTable(&all))
		for _, printed := range []string{ranking.String(), all.String()} {
			if !strings.Contains(strings.Join(strings.Fields(printed), " "), " "+strings.ReplaceAll(want, "|", " ")+" ") {
				t.Errorf("not %q:\n%s", want, printed)
			}
		}
	}
}

// Of two hard thresholds of one signal each has its own state: a soft one without a grace period is hard.
func TestTwoHardThresholds(t *testing.T) {
	t.Parallel()
	of := func(share float32) pressure.Threshold {
		return pressure.Threshold{Signal: pressure.MemoryAvailable, Hard: true, Quantity: pressure.Fraction(share)}
	}
	policy := &decide.Policy{Thresholds: []pressure.Threshold{of(0.05), of(0.1)}}
	sample := pressure.Sample{Time: time.Now()}
	sample.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 8, Capacity: 100}
	verdict := &pressure.Verdict{Pressures: []pressure.Pressure{{Threshold: of(0.1), Since: time.Now()}}}
	var d status.Document
	d.AddSignals(&sample, verdict, policy, func() int64 { return 0 })
	got := d.Signals[0].Thresholds
	if len(got) != 2 || got[0].Holds || !got[0].Since.IsZero() || !got[1].Holds {
		t.Errorf("%+v", got)
	}
}

// TestWhatKeepsAPod: a pod within its request is a candidate below half of a hard threshold, or below the kubelet's line,
// and while neither is known it is not. A saved pod that is spared is none at the document's time, unless a hard threshold
// of the signal that was asked for is met, and `--why` says what lifts that.
func TestWhatKeepsAPod(t *testing.T) {
	t.Parallel()
	const spared, within, memory = "limited", "within", pressure.MemoryAvailable
	for name, test := range map[string]struct {
		pod                string
		signal             pressure.Signal
		available, kubelet int64 // of memory, of 1000: the hard line is at 50; below 0 not known
		left               time.Duration
		ignored            bool
		want               string
	}{
		"above the line":           {within, memory, 60, -1, 0, false, "protected: WithinRequests"},
		"below it":                 {within, memory, 49, -1, 0, false, "protected: WithinRequests"},
		"below half of it":         {within, memory, 24, -1, 0, false, "uses 50.0Mi"},
		"below the kubelet's line": {within, memory, 45, 45, 0, false, "uses 50.0Mi"},
		"above the kubelet's line": {within, memory, 45, 44, 0, false, "protected: WithinRequests"},
		"no reading":               {within, memory, -1, -1, 0, false, "protected: WithinRequests"},

		"calm":              {spared, memory, 500, -1, 0, false, "protected: Annotation; annotation a/b"},
		"soft":              {spared, memory, 60, -1, time.Hour, false, "protected: Annotation; annotation a/b until 2026-11-20T03:14:07Z"},
		"over":              {spared, memory, 60, -1, -time.Second, false, "uses 300.0Mi"},
		"ignored":           {spared, memory, 60, -1, 0, true, "uses 300.0Mi"},
		"hard":              {spared, memory, 49, -1, 0, false, "uses 300.0Mi"},
		"not known":         {spared, memory, -1, -1, 0, false, "protected: Annotation"},
		"hard, for stalls":  {spared, pressure.MemoryStall, 500, -1, 0, false, "uses 300.0Mi"},
		"of another signal": {spared, pressure.PIDAvailable, 49, -1, 0, false, "protected: Annotation"},
	} {
		d := full(t)
		stall := &config.MemoryStall{Type: config.StallFull, Threshold: "10%", Window: metav1.Duration{Duration: 2 * time.Second}}
		d.Configuration.MemoryStall = stall
		d.Signals = append(d.Signals, status.Signal{Name: pressure.MemoryStall, State: "Known", Available: new(int64(80)), Capacity: new(int64(100))})
		s := &d.Signals[0]
		if s.Available, s.Capacity = &test.available, new(int64(1000)); test.available < 0 {
			s.Available = nil
		}
		if s.KubeletLine = &test.kubelet; test.kubelet < 0 {
			s.KubeletLine = nil
		}
		if test.ignored {
			d.Configuration.Protect.Annotations = config.AnnotationsIgnore
		}
		pod := &d.Pods[slices.IndexFunc(d.Pods, func(p status.Pod) bool { return p.Name == spared })]
		if pod.Usage.TasksKnown, pod.Annotation = true, "a/b"; test.left != 0 {
			pod.AnnotationUntil = d.Time.Add(test.left)
		}
		d = read(t, written(t, d))
		d.Rank(test.signal)
		all := slices.Concat(d.Ranking.Candidates, d.Ranking.Protected)
		e := all[slices.IndexFunc(all, func(e status.Entry) bool { return e.Name == test.pod })]
		var why bytes.Buffer
		must.Succeed(t, d.WriteWhy(&why, test.signal, e.Namespace+"/"+test.pod))
		if !strings.HasPrefix(e.Reason, test.want) || strings.Contains(why.String(), "protect.annotations: ignore") != (e.Protection == "Annotation") {
			t.Errorf("%s: %q, want %q, and\n%s", name, e.Reason, test.want, &why)
		}
	}
}

// TestSummary: what is not known is said so, and is none of the good news.
func TestSummary(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(d *status.Document)
		want   string // mode, pressure, last eviction and last tick
	}{
		"under pressure": {
			func(*status.Document) {},
			"acts|memory.available hard, nodefs.available in grace or transition, pid.available unknown|2s ago shop/web-2|0s ago",
		},
		"nothing is known": {func(d *status.Document) {
			*d = status.Document{Time: d.Time}
		}, "acts|unknown|none lately|unknown"},
		"calm, in dry run": {func(d *status.Document) {
			d.Enforcement = acting.State{Reason: "Configured", Why: "--dry-run is set"}
			d.Signals = d.Signals[:1]
			d.Signals[0].Under = false
			d.Decisions = []json.RawMessage{[]byte(`{"verb":"Acted","dry_run":true,"time":"2026-11-20T02:04:07Z","victim":"a/b"}`)}
		}, "dry run: --dry-run is set|none|10m ago a/b (dry run)|0s ago"},
		"stopped": {func(d *status.Document) {
			d.Enforcement, d.Signals = acting.State{Reason: "Stopped"}, nil
			d.Decisions = slices.Repeat([]json.RawMessage{[]byte(`{"verb":"Held"}`)}, 64)
		}, "stopped|none|none lately|0s ago"},
		"does not know": {func(d *status.Document) {
			d.Enforcement, d.Signals, d.Decisions = acting.State{Reason: "StopUnknown"}, nil, nil
		}, "stop unknown|none|none lately|0s ago"},
		"its file is refused": {
			func(d *status.Document) { d.ConfigurationRefused = "evictd.yaml:3: dryRun: …" },
			"acts, the file is refused and the one before applies: evictd.yaml:3: dryRun: …|" +
				"memory.available hard, nodefs.available in grace or transition, pid.available unknown|2s ago shop/web-2|0s ago",
		},
	} {
		d := full(t)
		test.change(d)
		var table bytes.Buffer
		must.Succeed(t, d.WriteTable(&table))
		var got []string
		for _, line := range strings.Split(table.String(), "\n")[2:6] {
			got = append(got, strings.TrimSpace(line[len("LAST EVICTION"):]))
		}
		if diff := cmp.Diff(test.want, strings.Join(got, "|")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEachProtectionHasAdvice: `--why` says of each what changes it.
func TestEachProtectionHasAdvice(t *testing.T) {
	t.Parallel()
	for _, protection := range ranktest.Protections(t, "../../pkg/rank/protect.go") {
		if status.Advice(rank.Protection(protection)) == "" {
			t.Errorf("%q has no advice", protection)
		}
	}
}

// TestBadDocuments: each fault is one sentence that says where it is.
func TestBadDocuments(t *testing.T) {
	t.Parallel()
	text := written(t, full(t))
	change := func(from, to string) string {
		if !strings.Contains(text, from) {
			t.Fatalf("the document lacks %q", from)
		}
		return strings.Replace(text, from, to, 1)
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":             {"\n", "unexpected end of JSON input"},
		"a list":            {"[]", "cannot unmarshal array"},
		"cut off":           {text[:len(text)-3], "unexpected end of JSON input"},
		"not JSON":          {"{\n\napiVersion: x}", "invalid character 'a'"},
		"data after it":     {text + "{}", "invalid character '{' after top-level value"},
		"a configuration":   {`{"kind": "EvictdConfiguration", "apiVersion": "evictd.dev/v1alpha1"}`, `it is "EvictdConfiguration" of "evictd.dev/v1alpha1"`},
		"no kind":           {change(`"kind": "NodeStatus",`, ""), `it is "" of "evictd.dev/v1alpha1", made by evictd "v0.1.0", and must be NodeStatus`},
		"another version":   {change("evictd.dev/v1alpha1", "evictd.dev/v9"), `of "evictd.dev/v9", made by evictd "v0.1.0"`},
		"unknown field":     {change(`"nodeName"`, `"colour": 1, "nodeName"`), `unknown field "colour"`},
		"unknown below":     {change(`"workingSet": 1`, `"colour": 1, "workingSet": 1`), `unknown field "pods[0].usage.colour"`},
		"another case":      {change(`"nodeName"`, `"NodeName"`), `unknown field "NodeName"`},
		"there twice":       {change(`"workingSet": 1`, `"workingSet": 1, "workingSet": 1`), `duplicate field "pods[0].usage.workingSet"`},
		"twice in labels":   {change(`"app": "web"`, `"app": "web", "app": "db"`), `duplicate field "pods[0].labels.app"`},
		"a fraction":        {change(`"workingSet": 104857600`, `"workingSet": 1.5`), "cannot unmarshal number 1.5 into"},
		"a text":            {change(`"workingSet": 104857600`, `"workingSet": "1"`), "pods.usage.workingSet of type int64"},
		"beyond int64":      {change(`"workingSet": 1`, `"workingSet": 99999999999999999999`), "cannot unmarshal number 99999999999999999999"},
		"missing figure":    {change(`"workingSet": 104857600,`, ""), "pods[0].usage.workingSet: is missing, and missing is not 0"},
		"null figure":       {change(`"workingSet": 104857600`, `"workingSet": null`), "pods[0].usage.workingSet: is missing, and missing is not 0"},
		"no pods":           {`{"apiVersion": "evictd.dev/v1alpha1", "kind": "NodeStatus", "evictdVersion": "v", "nodeName": "n", "time": "2026-11-20T02:14:07Z", "enforcement": {}, "configuration": {"apiVersion": "evictd.dev/v1alpha1", "kind": "EvictdConfiguration"}}`, "pods: is missing"},
		"no time":           {change(`"time": "2026`, `"time": "yesterday`), `parsing time "yesterday`},
		"no configuration":  {change(`"configuration"`, `"enforcement"`), `duplicate field "enforcement"`},
		"bad configuration": {change(`"memory.available": "5%"`, `"memory.available": "500%"`), "configuration: invalid configuration: evictionHard[memory.available]"},
		"unknown setting":   {change(`"dryRun": false`, `"colour": false`), "configuration: invalid configuration: colour"},
		"null pod":          {`{"apiVersion": "evictd.dev/v1alpha1", "kind": "NodeStatus", "evictdVersion": "v", "nodeName": "n", "time": "2026-11-20T02:14:07Z", "enforcement": {}, "pods": [null], "configuration": {"apiVersion": "evictd.dev/v1alpha1", "kind": "EvictdConfiguration"}}`, "pods[0]: is missing"},
		"no such signal":    {change(`"name": "memory.available"`, `"name": "memory.free"`), `unknown signal "memory.free"`},
		"no such disk":      {change(`"nodefs.available": 5`, `"tape.available": 5`), `unknown signal "tape.available"`},
		"a number as name":  {change(`"nodeName": "worker-1"`, `"nodeName": 5`), "nodeName of type string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := status.Read(strings.NewReader(test.text))
			if err == nil || !strings.HasPrefix(err.Error(), "reading the document: ") || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one sentence with %q", err, test.want)
			}
		})
	}
}

// TestWhatADocumentHolds: of a pod with a text in every field that a pod can have, now and in a later Kubernetes, which is
// the field's name with Value behind it, a document has these. A line that is new here needs one in docs/cli.md.
func TestWhatADocumentHolds(t *testing.T) {
	t.Parallel()
	filled, err := roundtrip.CompatibilityTestObject(scheme.Scheme, corev1.SchemeGroupVersion.WithKind("Pod"), nil)
	pod, is := filled.(*corev1.Pod)
	if err != nil || !is {
		t.Fatalf("%T, %v", filled, err)
	}
	text := written(t, &status.Document{Configuration: config.Default(), Pods: []status.Pod{{Pod: *nodepods.FromAPI(pod)}}})
	held := regexp.MustCompile(`".*(Key|Value)"`).FindAllString(text, -1)
	slices.Sort(held)
	if diff := cmp.Diff([]string{
		`"labelsKey": "labelsValue"`, `"name": "nameValue"`, `"namespace": "namespaceValue"`,
		`"owner": "kindValue/nameValue"`, `"ownerUID": "uidValue"`, `"uid": "uidValue"`,
	}, held); diff != "" {
		t.Errorf("what a document holds of a pod (-want +got):\n%s", diff)
	}
}

// FuzzDocument: nothing panics or takes for ever, a fault is one line, and what is accepted can be ranked,
// shown, and is written and read back to the same.
func FuzzDocument(f *testing.F) {
	text, err := os.ReadFile("testdata/full.json")
	must.Succeed(f, err)
	f.Add(text)
	for _, seed := range []string{"", "{}", "[", `{"kind": "NodeStatus"}`, strings.Replace(string(text), "104857600", "1e-999999999", 1), strings.Replace(string(text), `"pods": [`, `"pods": [null, `, 1)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := status.Read(bytes.NewReader(data))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\t\x1b") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		again := read(t, written(t, d))
		for _, signal := range pressure.Signals() {
			d.Rank(signal)
			again.Rank(signal)
			if diff := cmp.Diff(d.Ranking, again.Ranking); diff != "" {
				t.Errorf("%v, read back (-want +got):\n%s", signal, diff)
			}
			if d.Ranking != nil {
				if err = d.WriteRanking(&bytes.Buffer{}, signal, false); err != nil {
					t.Error(err)
				}
			}
		}
		if err = d.WriteTable(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
		for _, pod := range d.Pods {
			if err = d.WriteWhy(&bytes.Buffer{}, pressure.MemoryAvailable, pod.Key()); err != nil && d.Ranking != nil {
				t.Error(err)
			}
		}
	})
}
