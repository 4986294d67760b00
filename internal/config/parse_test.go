package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const head = "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"

// lines returns the faults of a file.
func lines(t *testing.T, file string) []string {
	t.Helper()
	c, err := Parse([]byte(file))
	if err == nil {
		return nil
	}
	if c != nil {
		t.Errorf("a refused file gave a configuration")
	}
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("not a file with faults: %v", err)
	}
	return invalid.Lines()
}

func mustParse(t *testing.T, file string) *EvictdConfiguration {
	t.Helper()
	c, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// faulty is a file and its faults.
type faulty struct {
	name string
	file string
	want []string
}

// checkFaults parses each file behind a head.
func checkFaults(t *testing.T, head string, files []faulty) {
	t.Helper()
	for _, tc := range files {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, lines(t, head+tc.file+"\n")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	checkFaults(t, head, []faulty{
		{"unknown field", "colour: red", []string{
			`colour: Forbidden: unknown field: correct its name, or remove it`,
		}},
		{"unknown field in wrong case", "dryrun: true", []string{
			`dryrun: Forbidden: unknown field: correct its name, or remove it`,
		}},
		{"unknown fields in blocks and lists", "protect: {podselector: {}}\nqueues: [{name: a, namespaces: [a], queues: [{name: b, namespaces: [a], weight: 1}]}]", []string{
			`protect.podselector: Forbidden: unknown field: correct its name, or remove it`,
			`queues[0].queues[0].weight: Forbidden: unknown field: correct its name, or remove it`,
		}},
		{"a switch of the kubelet's", "mergeDefaultEvictionSettings: true", []string{
			`mergeDefaultEvictionSettings: Forbidden: unknown field: evictd never merges; write every threshold that you want`,
		}},
		{"a line break in a key", `"a\nb": 1`, []string{
			`a\nb: Forbidden: unknown field: correct its name, or remove it`,
		}},
		{"a number for a text", "evictionHard: {pid.available: 1000}", []string{
			`evictionHard[pid.available]: Invalid value: 1000: must be text in quotes`,
		}},
		{"a grace period without a unit", "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 30}", []string{
			`evictionSoftGracePeriod[memory.available]: Invalid value: 30: must be text in quotes`,
		}},
		{"a grace period that is no duration", "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 30mins}", []string{
			`evictionSoftGracePeriod[memory.available]: Invalid value: "30mins": must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"a negative grace period", "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: -30s}", []string{
			`evictionSoftGracePeriod[memory.available]: Invalid value: "-30s": must not be negative`,
		}},
		{"a list for a map", "evictionHard: [memory.available]", []string{
			`evictionHard: Invalid value: must hold keys and values, not an array`,
		}},
		{"a word for a block", "limits: few", []string{
			`limits: Invalid value: "few": must hold fields and values`,
		}},
		{"a text for a bool", `dryRun: "true"`, []string{
			`dryRun: Invalid value: "true": must be true or false`,
		}},
		{"a text for a number", `evictionMaxPodGracePeriod: "30"`, []string{
			`evictionMaxPodGracePeriod: Invalid value: "30": must be a whole number from -2147483648 to 2147483647, without quotes`,
		}},
		{"a number too large", `evictionMaxPodGracePeriod: 3000000000`, []string{
			`evictionMaxPodGracePeriod: Invalid value: 3000000000: must be a whole number from -2147483648 to 2147483647, without quotes`,
		}},
		{"a duration without a unit", "sampling: {minInterval: 10}", []string{
			`sampling.minInterval: Invalid value: 10: must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"a duration in words", "evictionPressureTransitionPeriod: 5 minutes", []string{
			`evictionPressureTransitionPeriod: Invalid value: "5 minutes": must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"a block for a text", "memoryAvailable: {kernel: true}", []string{
			`memoryAvailable: Invalid value: must be text in quotes, not an object`,
		}},
		{"a block for a list", "protect: {namespaces: {a: b}}", []string{
			`protect.namespaces: Invalid value: must be a list, not an object`,
		}},
		{"a number in a list", "protect: {namespaces: [a, 1]}", []string{
			`protect.namespaces[1]: Invalid value: 1: must be text in quotes`,
		}},
		{"a word for a queue", "queues:\n- {name: a, namespaces: [x]}\n- foo\n- {name: b, namespaces: true}\n- {name: c, namespaces: [c], properties: {priority.policy: high}}", []string{
			`queues[1]: Invalid value: "foo": must hold fields and values`,
		}},
		{"a number in a map in a list", "queues: [{name: a, namespaces: [a]}, {name: b, queues: [{name: c, namespaces: [b], properties: {priority.offset: 1}}]}]", []string{
			`queues[1].queues[0].properties[priority.offset]: Invalid value: 1: must be text in quotes`,
		}},
		{"a number in a selector", "protect: {podSelector: {matchExpressions: [{key: a, operator: In, values: [b, 1]}]}}", []string{
			`protect.podSelector.matchExpressions[0].values[1]: Invalid value: 1: must be text in quotes`,
		}},
		{"a list for a duration", "limits: {softJitter: [5s]}", []string{
			`limits.softJitter: Invalid value: ["5s"]: must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"queues without end", "queues: " + strings.Repeat("[{name: a, queues: ", 2000) + "[]" + strings.Repeat("}]", 2000), []string{
			"queues[0]" + strings.Repeat(".queues[0]", 15) + ".queues: Invalid value: is nested deeper than 16 queues",
		}},
		{"a wrong type stands alone", "sampling: {minInterval: soon, maxInterval: 5h}\ncolour: red\nevictionSoft: {memory.available: 1%}", []string{
			`sampling.minInterval: Invalid value: "soon": must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"reclaim and a soft threshold are the node", "evictionSoft: {pid.available: 60%}\nevictionSoftGracePeriod: {pid.available: 1m}\nevictionMinimumReclaim: {pid.available: 40%}", []string{
			`evictionMinimumReclaim[pid.available]: Invalid value: "40%": must be less than 100% together with evictionSoft 60%, or a pressure would never be over`,
		}},
		{"a threshold without a value", "evictionHard: {memory.available: }", []string{
			`evictionHard[memory.available]: Invalid value: "": is neither an amount nor a percentage: write one like "500Mi" or "10%"`,
		}},
		{"unknown signal", "evictionHard: {Memory.available: 5%}", []string{
			`evictionHard[Memory.available]: Invalid value: "5%": unknown signal: must be one of memory.available, kubeletMemory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available`,
		}},
		{"containerfs", "evictionHard: {containerfs.available: 5%}", []string{
			`evictionHard[containerfs.available]: Invalid value: "5%": containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this`,
		}},
		{"containerfs everywhere", "evictionSoft: {containerfs.available: 5%}\nevictionMinimumReclaim: {containerfs.available: 5%}\nevictionSoftGracePeriod: {containerfs.available: 5s}", []string{
			`evictionMinimumReclaim[containerfs.available]: Invalid value: "5%": containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this`,
			`evictionSoft[containerfs.available]: Invalid value: "5%": containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this`,
			`evictionSoftGracePeriod[containerfs.available]: Invalid value: "5s": containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this`,
		}},
		{"memory.stall", "evictionHard: {memory.stall: 5%}", []string{
			`evictionHard[memory.stall]: Invalid value: "5%": memory stalls are set by the field memoryStall: move it there`,
		}},
		{"soft without grace", "evictionSoft: {memory.available: 10%}", []string{
			`evictionSoftGracePeriod[memory.available]: Required value: the soft threshold of this signal needs a grace period: add one`,
		}},
		{"grace without soft", "evictionHard: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 1m}", []string{
			`evictionSoftGracePeriod[memory.available]: Invalid value: "1m": has no soft threshold: add one to evictionSoft or remove this`,
		}},
		{"reclaim without threshold", "evictionHard: {memory.available: 10%}\nevictionMinimumReclaim: {pid.available: 1%}", []string{
			`evictionMinimumReclaim[pid.available]: Invalid value: "1%": has no threshold: add one to evictionHard or evictionSoft, or remove this`,
		}},
		{"reclaim and threshold are the node", "evictionHard: {memory.available: 60%}\nevictionMinimumReclaim: {memory.available: 40%}", []string{
			`evictionMinimumReclaim[memory.available]: Invalid value: "40%": must be less than 100% together with evictionHard 60%, or a pressure would never be over`,
		}},
		{"soft below hard, percentages", "evictionHard: {memory.available: 10%}\nevictionSoft: {memory.available: 5%}\nevictionSoftGracePeriod: {memory.available: 1m}", []string{
			`evictionSoft[memory.available]: Invalid value: "5%": must be above the hard threshold 10% of the same signal, which acts first otherwise: raise it or remove it`,
		}},
		{"soft equal to hard, amounts", "evictionHard: {memory.available: 1Gi}\nevictionSoft: {memory.available: 1024Mi}\nevictionSoftGracePeriod: {memory.available: 1m}", []string{
			`evictionSoft[memory.available]: Invalid value: "1024Mi": must be above the hard threshold 1Gi of the same signal, which acts first otherwise: raise it or remove it`,
		}},
		{"negative pod grace periods", "evictionMaxPodGracePeriod: -1\nevictionHardPodGracePeriod: -1\nevictionOverdueGracePeriod: -1", []string{
			`evictionMaxPodGracePeriod: Invalid value: -1: must be at least 0: 0 leaves the pod its own grace period`,
			`evictionHardPodGracePeriod: Invalid value: -1: must be at least 0: 0 leaves the pod its own grace period`,
			`evictionOverdueGracePeriod: Invalid value: -1: must be at least 0: 0 asks no victim again`,
		}},
		{"negative transition period", "evictionPressureTransitionPeriod: -5m", []string{
			`evictionPressureTransitionPeriod: Invalid value: "-5m0s": must be at least 0s`,
		}},
		{"unknown memoryAvailable", "memoryAvailable: free", []string{
			`memoryAvailable: Unsupported value: "free": supported values: "kernel", "workingSet"`,
		}},
		{"unknown disruptionBudgets", "disruptionBudgets: ignore", []string{
			`disruptionBudgets: Unsupported value: "ignore": supported values: "bestEffort", "respect"`,
		}},
		{"stall without a threshold", "memoryStall: {}", []string{
			`memoryStall.threshold: Invalid value: "": must be a percentage of the window, such as "10%"`,
		}},
		{"stall that makes no sense", "memoryStall: {type: most, threshold: 100Mi, window: 2h}", []string{
			`memoryStall.type: Unsupported value: "most": supported values: "some", "full"`,
			`memoryStall.threshold: Invalid value: "100Mi": must be a percentage of the window, such as "10%"`,
			`memoryStall.window: Invalid value: "2h0m0s": must be between 1s and 1m0s, and not shorter than sampling.maxInterval: there would be no sample in between`,
		}},
		{"stall between two samples", "memoryStall: {threshold: 0.5%, window: 1s}\nsampling: {maxInterval: 2s}", []string{
			`memoryStall.threshold: Invalid value: "0.5%": must be between 1% and 99%: remove memoryStall to switch it off`,
			`memoryStall.window: Invalid value: "1s": must be between 2s and 1m0s, and not shorter than sampling.maxInterval: there would be no sample in between`,
		}},
		{"stall of all or nothing", "memoryStall: {threshold: 100%, window: -1s}", []string{
			`memoryStall.threshold: Invalid value: "100%": must be between 1% and 99%: remove memoryStall to switch it off`,
			`memoryStall.window: Invalid value: "-1s": must be between 1s and 1m0s, and not shorter than sampling.maxInterval: there would be no sample in between`,
		}},
		{"sampling too fast", "sampling: {minInterval: 0s}", []string{
			`sampling.minInterval: Invalid value: "0s": must be between 1ms and 10s`,
		}},
		{"sampling too slow", "sampling: {maxInterval: 11s}", []string{
			`sampling.maxInterval: Invalid value: "11s": must be between 10ms and 10s, and not shorter than minInterval`,
		}},
		{"sampling at no time", "sampling: {maxInterval: 0s}", []string{
			`sampling.maxInterval: Invalid value: "0s": must be between 1ms and 10s, and not shorter than minInterval`,
		}},
		{"sampling the wrong way round", "sampling: {minInterval: 2s, maxInterval: 1s}", []string{
			`sampling.maxInterval: Invalid value: "1s": must be between 2s and 10s, and not shorter than minInterval`,
		}},
		{"priority 0", "protect: {priorityAtLeast: 0}", []string{
			`protect.priorityAtLeast: Invalid value: 0: must be between 1 and 2000000000; a pod of a higher priority is protected in any case`,
		}},
		{"priority above the system's", "protect: {priorityAtLeast: 2000000001}", []string{
			`protect.priorityAtLeast: Invalid value: 2000000001: must be between 1 and 2000000000; a pod of a higher priority is protected in any case`,
		}},
		{"pods within their requests", "protect: {withinRequests: sometimes}", []string{
			`protect.withinRequests: Unsupported value: "sometimes": supported values: "always", "never", "untilExhaustion"`,
		}},
		{"limits of nothing", "limits: {evictionsPerMinute: 0, perOwnerPerHour: -1}", []string{
			`limits.evictionsPerMinute: Invalid value: 0: must be at least 1: use dryRun to evict no pod`,
			`limits.perOwnerPerHour: Invalid value: -1: must be at least 1: use dryRun to evict no pod`,
		}},
		{"annotation namespaces that cannot be", "protect: {annotationNamespaces: [team-*, '*', t*m, Team]}", []string{
			`protect.annotationNamespaces[2]: Invalid value: "t*m": may have * at its end only`,
			"protect.annotationNamespaces[3]: Invalid value: \"Team\": must be the name of a namespace, or the beginning of one and *: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
		}},
		{"a jitter of an hour", "limits: {softJitter: 1h}", []string{
			`limits.softJitter: Invalid value: "1h0m0s": must be between 0s and 1m0s; a soft threshold that should wait longer has a longer grace period`,
		}},
		{"a jitter back in time", "limits: {softJitter: -1s}", []string{
			`limits.softJitter: Invalid value: "-1s": must be between 0s and 1m0s; a soft threshold that should wait longer has a longer grace period`,
		}},
		{"a disk source that there is not", "disk: {source: du}", []string{
			`disk.source: Unsupported value: "du": supported values: "summary", "node"`,
		}},
		{"no CPU for the disk", "disk: {cpu: 9m}", []string{
			`disk.cpu: Invalid value: "9m": must be between 10m and 1, one core for each of disk.workers`,
		}},
		{"more CPU for the disk than its workers can take", "disk: {cpu: 2001m, workers: 2}", []string{
			`disk.cpu: Invalid value: "2001m": must be between 10m and 2, one core for each of disk.workers`,
		}},
		{"CPU without end", "disk: {cpu: '1e-999999999'}", []string{
			`disk.cpu: Invalid value: "1e-999999999": must be an amount of CPU, such as "200m"`,
		}},
		{"CPU in words", "disk: {cpu: 20%, workers: 17}", []string{
			`disk.workers: Invalid value: 17: must be between 1 and 16`,
			`disk.cpu: Invalid value: "20%": must be an amount of CPU, such as "200m"`,
		}},
		{"selector without values", "protect: {podSelector: {matchExpressions: [{key: a, operator: In}]}}", []string{
			"protect.podSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		}},
		{"selector with an unknown operator", "protect: {podSelector: {matchExpressions: [{key: a, operator: Is}]}}", []string{
			`protect.podSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
		}},
		{"everything at once", "evictionHard: {memory.available: 100.0%, cpu.available: 5%}\nevictionSoft: {nodefs.available: 15%}\nlimits: {evictionsPerMinute: 0}\nqueue: []", []string{
			`queue: Forbidden: unknown field: correct its name, or remove it`,
			`evictionHard[cpu.available]: Invalid value: "5%": unknown signal: must be one of memory.available, kubeletMemory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available`,
			`evictionHard[memory.available]: Invalid value: "100.0%": would always be met: write "100%" to switch the threshold off, or a smaller percentage`,
			`evictionSoftGracePeriod[nodefs.available]: Required value: the soft threshold of this signal needs a grace period: add one`,
			`limits.evictionsPerMinute: Invalid value: 0: must be at least 1: use dryRun to evict no pod`,
		}},
	})
}

func TestParseNamespaceFaults(t *testing.T) {
	t.Parallel()
	got := lines(t, head+"protect: {namespaces: [ok, team-*, a.b]}\n")
	if len(got) != 2 ||
		!strings.HasPrefix(got[0], `protect.namespaces[1]: Invalid value: "team-*": must be the name of a namespace, without patterns: `) ||
		!strings.HasPrefix(got[1], `protect.namespaces[2]: Invalid value: "a.b": `) {
		t.Errorf("got %q", got)
	}
}

func TestParseHead(t *testing.T) {
	t.Parallel()
	checkFaults(t, "", []faulty{
		{"none", "dryRun: true", []string{
			`apiVersion: Unsupported value: "": supported values: "evictd.dev/v1alpha1"`,
			`kind: Unsupported value: "": supported values: "EvictdConfiguration"`,
		}},
		{"a kubelet's file", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.0.0.10]", []string{
			`apiVersion: Unsupported value: "kubelet.config.k8s.io/v1beta1": supported values: "evictd.dev/v1alpha1"`,
			`kind: Unsupported value: "KubeletConfiguration": supported values: "EvictdConfiguration"`,
		}},
		{"another version", "apiVersion: evictd.dev/v1\nkind: EvictdConfiguration", []string{
			`apiVersion: Unsupported value: "evictd.dev/v1": supported values: "evictd.dev/v1alpha1"`,
		}},
		{"not text", "apiVersion: 1\nkind: true", []string{
			`apiVersion: Invalid value: 1: must be text in quotes`,
		}},
	})
}

func TestParseNoDocument(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, file, say string }{
		{"empty", "", "the file is empty"},
		{"only a comment", "# nothing yet\n", "the file is empty"},
		{"only null", "---\n", "the file is empty"},
		{"two documents", head + "---\n" + head, "line 3 starts a second YAML document"},
		{"not YAML", head + "dryRun: [", "not YAML: "},
		{"not YAML after a good document", head + "---\n]", "not YAML: "},
		{"a tab", head + "limits:\n\tevictionsPerMinute: 1\n", "not YAML: line 4: found character that cannot start any token"},
		{"a duplicate field", head + "dryRun: true\ndryRun: false", `not YAML: line 4: key "dryRun" already set in map`},
		{"duplicate keys", head + "evictionHard:\n  pid.available: 5%\n  pid.available: 6%\ndryRun: true\ndryRun: true", `not YAML: line 5: key "pid.available" already set in map; line 7: key "dryRun" already set in map`},
		{"a duplicate key in a list", head + "protect:\n  podSelector:\n    matchExpressions:\n    - key: a\n      key: a\n      operator: Exists", `not YAML: line 7: key "key" already set in map`},
		{"a duplicate of a merged key", head + "evictionHard: &lines {memory.available: 5%}\nevictionSoft: {<<: *lines, memory.available: 8%}", `not YAML: line 4: key "memory.available" already set in map`},
		{"no number", head + "limits: {evictionsPerMinute: .nan}", "not YAML: json: unsupported value: NaN"},
		{"a text", "hello", "the file holds one value, of the type string, and not fields and values"},
		{"a number", "5", "of the type number"},
		{"a bool", "true", "of the type bool"},
		{"a list", "- a\n", "of the type array"},
		{"NUL bytes", head + "\x00", "not YAML: control characters are not allowed"},
		{"not UTF-8", head + "# \xff\n", "not YAML: invalid leading UTF-8 octet"},
		{"too large", head + "#" + strings.Repeat("a", maxFileBytes), "larger than 1 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse([]byte(tc.file))
			if err == nil || c != nil {
				t.Fatalf("got %v, want it refused", c)
			}
			if _, found := errors.AsType[*InvalidError](err); found {
				t.Errorf("got faults of the content: %v", err)
			}
			if !strings.Contains(err.Error(), tc.say) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line that says %q", err, tc.say)
			}
		})
	}
}

func TestParseAcceptsYAML(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"a document marker":         "---\n" + head,
		"an empty second document":  head + "---\n",
		"an end marker":             head + "...\n",
		"JSON":                      `{"apiVersion": "evictd.dev/v1alpha1", "kind": "EvictdConfiguration"}`,
		"nulls":                     head + "evictionHard:\nevictionSoft: null\nlimits:\nsampling: {minInterval: null}\nprotect: {namespaces: }\nqueues: []\n",
		"a byte order mark":         "\ufeff" + head,
		"Windows line ends":         strings.ReplaceAll(head, "\n", "\r\n"),
		"a transition of 0 is none": head + "evictionPressureTransitionPeriod: 0s\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(Default(), mustParse(t, file)); diff != "" {
				t.Errorf("not the defaults (-want +got):\n%s", diff)
			}
		})
	}
	c := mustParse(t, head+"evictionMinimumReclaim: &amounts {memory.available: 5%}\nevictionHard: {<<: *amounts, nodefs.available: 8%}\n")
	if diff := cmp.Diff(map[string]string{"memory.available": "5%", "nodefs.available": "8%"}, c.EvictionHard); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

// TestParseContract reads the contract's example, without what this version does
// not have.
func TestParseContract(t *testing.T) {
	t.Parallel()
	got := mustParse(t, head+`
dryRun: true
evictionHard:
  memory.available: 5%
  nodefs.available: 12%
evictionSoft: {memory.available: 10%}
evictionSoftGracePeriod: {memory.available: 30s}
evictionMinimumReclaim: {memory.available: 2%}
evictionPressureTransitionPeriod: 4m
evictionMaxPodGracePeriod: 60
evictionHardPodGracePeriod: 5
evictionOverdueGracePeriod: 90
memoryAvailable: workingSet
memoryStall: {type: some, threshold: 10%, window: 3s}
sampling: {minInterval: 20ms, maxInterval: 2s}
disruptionBudgets: respect
protect: {daemonSets: false, barePods: false, pinnedPods: false, priorityAtLeast: 1000, namespaces: [], podSelector: {matchLabels: {a: b}}, withinRequests: always, annotationNamespaces: [team-*]}
limits: {evictionsPerMinute: 7, perOwnerPerHour: 8, softJitter: 9s}
disk: {source: node, cpu: 1500m, workers: 2}
kubelet: {insecureSkipTLSVerify: true}
`)
	want := &EvictdConfiguration{
		APIVersion:                       APIVersion,
		Kind:                             Kind,
		DryRun:                           true,
		EvictionHard:                     map[string]string{"memory.available": "5%", "nodefs.available": "12%"},
		EvictionSoft:                     map[string]string{"memory.available": "10%"},
		EvictionSoftGracePeriod:          map[string]string{"memory.available": "30s"},
		EvictionMinimumReclaim:           map[string]string{"memory.available": "2%"},
		EvictionPressureTransitionPeriod: seconds(240),
		EvictionMaxPodGracePeriod:        60,
		EvictionHardPodGracePeriod:       5,
		EvictionOverdueGracePeriod:       90,
		MemoryAvailable:                  MemoryWorkingSet,
		MemoryStall:                      &MemoryStall{Type: StallSome, Threshold: "10%", Window: seconds(3)},
		Sampling: Sampling{
			MinInterval: seconds(0.02),
			MaxInterval: seconds(2),
		},
		DisruptionBudgets: BudgetsRespect,
		Protect: Protect{
			PriorityAtLeast: 1000,
			Namespaces:      []string{},
			PodSelector:     metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			WithinRequests:  WithinRequestsAlways,

			AnnotationNamespaces: []string{"team-*"},
		},
		Limits:  Limits{EvictionsPerMinute: 7, PerOwnerPerHour: 8, SoftJitter: seconds(9)},
		Disk:    Disk{Source: DiskNode, CPU: "1500m", Workers: 2},
		Kubelet: Kubelet{InsecureSkipTLSVerify: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "evictd.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := Load(directory); err == nil {
		t.Error("a directory was loaded")
	}
	if err := os.WriteFile(path, []byte(head+"dryRun: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil || !c.DryRun {
		t.Errorf("got %+v, %v", c, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#\n", maxFileBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("too large: got %v", err)
	}
}

// FuzzParse: nothing panics, every fault is a line, and what is accepted is
// written and read back to the same.
func FuzzParse(f *testing.F) {
	defaults, err := Explain(Default())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(defaults), head, "", "- a", head + "---\n" + head, head + "evictionHard: {memory.available: 100.0%}",
		head + "evictionSoft: {memory.available: 20%}\nevictionSoftGracePeriod: {memory.available: 0s}",
		head + "protect: {podSelector: {matchExpressions: [{key: a, operator: Exists, values: []}]}, namespaces: []}",
		head + "a: &a [*a]", head + "? [a]: b", head + "? {a: b}\n: c", head + "1: 2", head + "<<: {dryRun: true}",
		head + "sampling: {minInterval: 5s}", head + "dryRun: .nan", head + "\"\\x01\\n\": 1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		var invalid *InvalidError
		switch {
		case errors.As(err, &invalid):
			if len(invalid.Faults) == 0 || strings.Contains(strings.Join(invalid.Lines(), ""), "\n") {
				t.Errorf("faults %q", invalid.Lines())
			}
			return
		case err != nil:
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		if err = c.Validate(); err != nil {
			t.Errorf("accepted and not valid: %v", err)
		}
		written, err := Explain(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(written)
		if err != nil {
			t.Fatalf("%v, reading back:\n%s", err, written)
		}
		if diff := cmp.Diff(c, again, emptySelectors()); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		if _, err := c.Thresholds(); err != nil {
			t.Errorf("accepted and without thresholds: %v", err)
		}
		c.Rules()
	})
}
