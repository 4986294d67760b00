package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/pkg/rank"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compare compares with a file, or writes it with -update.
func compare(t *testing.T, path, got string) {
	t.Helper()
	golden.Compare(t, path, got, *update, "go test ./cmd/evictd -update")
}

const example = "testdata/rank/worker-1.yaml"

// ranked calls `evictd rank --snapshot` and fails the test unless it succeeds and prints
// nothing but the ranking.
func ranked(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := call(t, append([]string{"rank"}, args...)...)
	if code != exitFine || stderr != "" {
		t.Fatalf("evictd rank %q: code %d, stderr %q", args, code, stderr)
	}
	return stdout
}

// The worked example, in every format, without a cluster, a node or a configuration.
func TestRecordedNodeIsRanked(t *testing.T) {
	t.Setenv("NODE_NAME", "another-node") // the node that evictd runs on does not matter
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, args := range map[string][]string{
		"table.txt":      {"-o", "table"},
		"wide.txt":       {"-o", "wide"},
		"report.json":    {"-o", "json"},
		"report.yaml":    {"-o", "yaml"},
		"disk.txt":       {"--signal", "nodefs.available"},
		"pids.txt":       {"--signal", "pid.available"},
		"why.txt":        {"--why", "shop/web-6b7c9-9s2hw"},
		"why-root.txt":   {"--why", "tools/exporter-5f6b7-pv4tr"},
		"why-pids.txt":   {"--why", "shop/cart-5d9f8-xm2vn", "--signal", "pid.available"},
		"protected.txt":  {"--why", "tools/debug"},
		"unsampled.txt":  {"--why", "batch/import-kk29d"},
		"first-why.txt":  {"--why", "batch/report-9zqfl"},
		"last-why.txt":   {"--why", "shop/payments-77c4d-lq8ds"},
		"critical.txt":   {"--why", "kube-system/coredns-74ff5-2mwzp"},
		"itself-why.txt": {"--why", "evictd/evictd-jtzhr"},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, "testdata/rank/"+name, ranked(t, append([]string{"--snapshot", example}, args...)...))
		})
	}
}

// The explanation of the pod in the middle names both neighbors and, for each, the key that
// decides, with both values.
func TestWhyNamesBothNeighboursAndTheDecidingKeys(t *testing.T) {
	t.Parallel()
	story := ranked(t, "--snapshot", example, "--why", "shop/web-6b7c9-9s2hw")
	for _, want := range []string{
		"candidate 4 of 8",
		"Candidate 3, shop/web-6b7c9-4tkqd, goes before it",
		"Candidate 5, shop/cart-5d9f8-xm2vn, goes after it",
		"web-6b7c9-4tkqd 146.0Mi  web-6b7c9-9s2hw 119.0Mi  decides: the larger goes first",
		"web-6b7c9-9s2hw 100  cart-5d9f8-xm2vn 1000  decides: the lower goes first",
		"root.shop is a fence with offset 100, so that root counts it as 100",
		"Budget: blocked by web.",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
}

// The output in docs/ranking.md for the worked example is what evictd prints.
func TestDocsShowTheWorkedExample(t *testing.T) {
	t.Parallel()
	page := readDoc(t, "docs/ranking.md")
	for _, args := range [][]string{{"--snapshot", example}, {"--snapshot", example, "--why", "shop/web-6b7c9-9s2hw"}} {
		printed := ranked(t, args...)
		called := "$ evictd rank " + strings.Replace(strings.Join(args, " "), example, "cmd/evictd/"+example, 1)
		if !strings.Contains(page, called+"\n"+printed+"```") {
			t.Errorf("docs/ranking.md does not hold what %q prints:\n%s", args, printed)
		}
	}
}

// A snapshot that is saved again, as JSON, gives the same ranking: nothing is lost.
func TestSnapshotWrittenAgainRanksTheSame(t *testing.T) {
	t.Parallel()
	seen, err := snapshot.Load(example)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "again.json")
	if err = seen.Save(path); err != nil {
		t.Fatal(err)
	}
	for _, signal := range rankable() {
		args := []string{"--signal", signal.String(), "-o", "json"}
		want := ranked(t, append([]string{"--snapshot", example}, args...)...)
		if diff := cmp.Diff(want, ranked(t, append([]string{"--snapshot", path}, args...)...)); diff != "" {
			t.Errorf("%s (-YAML +JSON):\n%s", signal, diff)
		}
	}
}

// JSON and YAML have the same content.
func TestReportIsTheSameInJSONAndYAML(t *testing.T) {
	t.Parallel()
	var fromJSON, fromYAML rankReport
	if err := json.Unmarshal([]byte(ranked(t, "--snapshot", example, "-o", "json")), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(ranked(t, "--snapshot", example, "-o", "yaml")), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" || len(fromJSON.Candidates) != 8 {
		t.Errorf("%d candidates (-JSON +YAML):\n%s", len(fromJSON.Candidates), diff)
	}
}

// Another configuration replaces the recorded one.
func TestConfigBesideASnapshotTakesItsPlace(t *testing.T) {
	t.Parallel()
	var report rankReport
	text := ranked(t, "--snapshot", example, "-o", "json", "--config", configFile(t, head+"protect: {barePods: false, withinRequests: never}\n"))
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatal(err)
	}
	// Without queues and with bare pods, the lowest priority that exceeds its request is
	// evicted first.
	if first := report.Candidates[0]; first.Name != "debug" || first.Queue != "" || len(report.Candidates) != 9 {
		t.Errorf("%d candidates, the first %+v; want 9 and debug", len(report.Candidates), first)
	}
}

// A pod within its request is shown as protected, with what would change that, until less
// than half of the hard threshold is left: the recorded node has 812 MiB.
func TestRankProtectsPodsWithinTheirRequests(t *testing.T) {
	t.Parallel()
	const protected, candidate = "It is protected and no candidate: WithinRequests.", "It is candidate 7 of 8."
	for file, within := range map[string]string{
		"": protected,
		"evictionHard: {memory.available: 1Gi}\n":                                    protected,
		"evictionHard: {memory.available: 2Gi}\n":                                    candidate,
		"evictionHard: {memory.available: 2Gi}\nprotect: {withinRequests: always}\n": protected,
	} {
		story := ranked(t, "--snapshot", example, "--why", "shop/cache-0", "--config", configFile(t, head+file))
		if !strings.Contains(story, within) || strings.Contains(story, "protect.withinRequests: never") != (within == protected) {
			t.Errorf("%q: the story of a pod within its request:\n%s", file, story)
		}
	}
}

func TestWhyOfAPodThatIsNotThere(t *testing.T) {
	t.Parallel()
	const want = "evictd: --why shop/web: no such pod on node worker-1; evictd knows 12 there, and lists them without --why\n"
	if code, stdout, stderr := call(t, "rank", "--snapshot", example, "--why", "shop/web"); code != exitFault || stdout != "" || stderr != want {
		t.Errorf("code %d, stdout %q, stderr %q; want 1, nothing and %q", code, stdout, stderr, want)
	}
}

// Each protection has its own advice.
func TestEachProtectionHasAdvice(t *testing.T) {
	t.Parallel()
	general := advice("no such protection")
	for _, protection := range rank.Protections() {
		if advice(protection) == general {
			t.Errorf("%q has no advice: write one in rank_advice.go", protection)
		}
	}
}

// Contradicting flags are rejected before anything is opened, with one sentence that says
// why.
func TestFlagsOfRankThatDoNotGoTogether(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	there := writeFile(t, "there.json", "mine")
	live := []string{"--config", "c", "--node-name", "n"}
	recorded := []string{"--snapshot", "s"}
	for name, test := range map[string]struct {
		base []string
		args []string
		want string
	}{
		"node":          {recorded, []string{"--node-name", "n"}, "--snapshot and --node-name do not go together: the snapshot says which node it is of"},
		"kubeconfig":    {recorded, []string{"--kubeconfig", "k"}, "--snapshot and --kubeconfig do not go together: no API server is read"},
		"cgroup":        {recorded, []string{"--kubepods-cgroup", "k"}, "--snapshot and --kubepods-cgroup do not go together: no machine is read"},
		"host":          {recorded, []string{"--host-root", "/"}, "--snapshot and --host-root do not go together: no machine is read"},
		"budgets":       {recorded, []string{"--budgets", "1"}, "--snapshot and --budgets do not go together: the snapshot contains them"},
		"save":          {recorded, []string{"--save", "x"}, "--snapshot and --save do not go together: it is saved already: copy the file"},
		"watch":         {recorded, []string{"--watch"}, "--snapshot and --watch do not go together: it does not change"},
		"save watch":    {live, []string{"--save", "x", "-w"}, "--save and --watch do not go together: a snapshot is of one moment"},
		"why watch":     {live, []string{"--why", "a/b", "-w"}, "--why and --watch do not go together: the story is longer than a screen: watch the table"},
		"why output":    {live, []string{"--why", "a/b", "-o", "json"}, "--why and --output do not go together: the story is prose; leave --output out"},
		"watch JSON":    {live, []string{"-w", "-o", "json"}, "--watch and --output json do not go together: a refresh that fails has no place in a stream of documents; call evictd rank -o json in a loop"},
		"stdout":        {live, []string{"--save", "-", "-o", "wide"}, "--save - writes the snapshot to stdout and no ranking: leave --output and --why out, or name a file"},
		"interval":      {live, []string{"--interval", "1s"}, "--interval is for --watch: add it, or leave --interval out"},
		"interval 1ms":  {live, []string{"-w", "--interval", "1ms"}, "--interval 1ms: write at least 500ms; each look lists the node's pods"},
		"fewer budgets": {live, []string{"--budgets", "-1"}, "--budgets -1: write 0 to ask about none, or how many candidates to ask about"},
		"why no pod":    {live, []string{"--why", "web"}, `--why "web": write NAMESPACE/POD`},
		"why nothing":   {live, []string{"--why", ""}, `--why "": write NAMESPACE/POD`},
		"no snapshot":   {live, []string{"--snapshot", ""}, "--snapshot is empty: name a file, or - for stdin"},
		"no file":       {live, []string{"--save", ""}, "--save is empty: name a file, or - for stdout"},
		"overwrite":     {live, []string{"--save", there}, "--save " + there + ": the file is there already; name another one, or remove it first"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, append(append([]string{"rank"}, test.base...), test.args...)...)
			if code != exitUsage || stdout != "" || stderr != "evictd: "+test.want+"\n" {
				t.Errorf("code %d, stdout %q, stderr %q; want 2, nothing and %q", code, stdout, stderr, test.want)
			}
		})
	}
}

// An error in a snapshot names its file.
func TestUnusableSnapshot(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "node.json", head)
	code, stdout, stderr := call(t, "rank", "--snapshot", path)
	if code != exitFault || stdout != "" || !strings.HasPrefix(stderr, "evictd: --snapshot "+path+": reading the snapshot: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("code %d, stdout %q, stderr %q; want 1 and one line about the file", code, stdout, stderr)
	}
}

// The content of a snapshot cannot move the reader's cursor.
func TestNothingInASnapshotReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	hostile := strings.ReplaceAll(string(text), "reports run to their end", `\u001b[2J\u0007`)
	hostile = strings.ReplaceAll(hostile, "name: exporter-5f6b7-pv4tr", `name: "x\u001b[31m"`)
	path := writeFile(t, "node.yaml", hostile)
	for _, args := range [][]string{{"-o", "wide"}, {"--why", "batch/report-9zqfl"}, {"--why", "tools/x\x1b[31m"}} {
		printed := ranked(t, append([]string{"--snapshot", path}, args...)...)
		if strings.ContainsAny(printed, "\x1b\x07") || !strings.Contains(printed, `\x1b[`) {
			t.Errorf("%q prints\n%q", args, printed)
		}
	}
}
