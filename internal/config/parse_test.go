package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestParseFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		file string // after the head
		want []string
	}{
		{"unknown field", "colour: red", []string{
			`colour: Forbidden: unknown field: remove it`,
		}},
		{"unknown field with a slip", "evictionHrd: {}", []string{
			`evictionHrd: Forbidden: unknown field: did you mean evictionHard?`,
		}},
		{"unknown field in wrong case", "dryrun: true", []string{
			`dryrun: Forbidden: unknown field: did you mean dryRun?`,
		}},
		{"unknown field in a block", "protect: {podselector: {}}", []string{
			`protect.podselector: Forbidden: unknown field: did you mean podSelector?`,
		}},
		{"a switch of the kubelet's", "mergeDefaultEvictionSettings: true", []string{
			`mergeDefaultEvictionSettings: Forbidden: unknown field: evictd never merges; write every threshold that you want`,
		}},
		{"a line break in a key", `"a\nb": 1`, []string{
			`a\nb: Forbidden: unknown field: remove it`,
		}},
		{"duplicate field", "dryRun: true\ndryRun: false", []string{
			`dryRun: Duplicate value: written in lines 3 and 4: keep one`,
		}},
		{"duplicate key", "evictionHard:\n  memory.available: 5%\n  memory.available: 6%", []string{
			`evictionHard[memory.available]: Duplicate value: written in lines 4 and 5: keep one`,
		}},
		{"duplicate key in a list", "protect:\n  podSelector:\n    matchExpressions:\n    - key: a\n      key: a\n      operator: Exists", []string{
			`protect.podSelector.matchExpressions[0].key: Duplicate value: written in lines 6 and 7: keep one`,
		}},
		{"a number for a text", "evictionHard: {pid.available: 1000}", []string{
			`evictionHard[pid.available]: Invalid value: 1000: must be text: put it in quotes`,
		}},
		{"a grace period without a unit", "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 30}", []string{
			`evictionSoftGracePeriod[memory.available]: Invalid value: 30: must be text: put it in quotes`,
		}},
		{"a grace period that is no duration", "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 30mins}", []string{
			`evictionSoftGracePeriod[memory.available]: Invalid value: "30mins": must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"a negative grace period", "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: -30s}", []string{
			`evictionSoftGracePeriod[memory.available]: Invalid value: "-30s": must not be negative`,
		}},
		{"a list for a map", "evictionHard: [memory.available]", []string{
			`evictionHard: Invalid value: must hold keys and values, not a list`,
		}},
		{"a word for a block", "limits: few", []string{
			`limits: Invalid value: "few": must hold fields and values`,
		}},
		{"a text for a bool", `dryRun: "true"`, []string{
			`dryRun: Invalid value: "true": must be true or false`,
		}},
		{"a text for a number", `evictionMaxPodGracePeriod: "30"`, []string{
			`evictionMaxPodGracePeriod: Invalid value: "30": must be a whole number without quotes`,
		}},
		{"a number too large", `evictionMaxPodGracePeriod: 3000000000`, []string{
			`evictionMaxPodGracePeriod: Invalid value: 3000000000: must be a whole number between -2147483648 and 2147483647`,
		}},
		{"a duration without a unit", "sampling: {minInterval: 10}", []string{
			`sampling.minInterval: Invalid value: 10: must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"a duration in words", "evictionPressureTransitionPeriod: 5 minutes", []string{
			`evictionPressureTransitionPeriod: Invalid value: "5 minutes": must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"a block for a text", "memoryAvailable: {kernel: true}", []string{
			`memoryAvailable: Invalid value: must be text, not fields and values`,
		}},
		{"a block for a list", "protect: {namespaces: {a: b}}", []string{
			`protect.namespaces: Invalid value: must be a list, not fields and values`,
		}},
		{"a number in a list", "protect: {namespaces: [a, 1]}", []string{
			`protect.namespaces[1]: Invalid value: 1: must be text: put it in quotes`,
		}},
		{"faults behind a broken queue keep their places", "queues:\n- {name: a, namespaces: [x]}\n- foo\n- {name: b, namespaces: true}\n- {name: c, namespaces: [c], properties: {priority.policy: high}}", []string{
			`queues[1]: Invalid value: "foo": must hold fields and values`,
			`queues[2].namespaces: Invalid value: true: must be a list`,
			`queues[3].properties[priority.policy]: Unsupported value: "high": supported values: "default", "fence"`,
		}},
		{"queues without end", "queues: " + strings.Repeat("[{name: a, queues: ", 2000) + "[]" + strings.Repeat("}]", 2000), []string{
			"queues[0]" + strings.Repeat(".queues[0]", 16) + ": Invalid value: is nested deeper than 16 queues",
		}},
		{"a broken bound beside a good one", "sampling: {minInterval: soon, maxInterval: 5ms}", []string{
			`sampling.minInterval: Invalid value: "soon": must be a duration with a unit, like "30s" or "1m30s"`,
		}},
		{"a broken soft threshold beside its grace period", "evictionSoft: {memory.available: 1}\nevictionSoftGracePeriod: {memory.available: 1m}\nevictionMinimumReclaim: {memory.available: 1%}\nevictionHard: {}", []string{
			`evictionSoft[memory.available]: Invalid value: 1: must be text: put it in quotes`,
		}},
		{"a broken map beside its companions", "evictionHard: {}\nevictionSoft: 1\nevictionSoftGracePeriod: {memory.available: 1m}\nevictionMinimumReclaim: {memory.available: 1%}", []string{
			`evictionSoft: Invalid value: 1: must hold keys and values`,
		}},
		{"reclaim and a soft threshold are the node", "evictionSoft: {pid.available: 60%}\nevictionSoftGracePeriod: {pid.available: 1m}\nevictionMinimumReclaim: {pid.available: 40%}", []string{
			`evictionMinimumReclaim[pid.available]: Invalid value: "40%": must be less than 100% together with evictionSoft 60%, or a pressure would never be over`,
		}},
		{"a null in a list", "protect: {namespaces: [null]}", []string{
			`protect.namespaces[0]: Invalid value: must be text, not nothing`,
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
			`evictionSoft[containerfs.available]: Invalid value: "5%": containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this`,
			`evictionSoftGracePeriod[containerfs.available]: Invalid value: "5s": containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this`,
			`evictionMinimumReclaim[containerfs.available]: Invalid value: "5%": containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this`,
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
			`evictionMaxPodGracePeriod: Invalid value: -1: must not be negative: 0 leaves the pod its own grace period`,
			`evictionHardPodGracePeriod: Invalid value: -1: must not be negative: 0 leaves the pod its own grace period`,
			`evictionOverdueGracePeriod: Invalid value: -1: must not be negative: 0 leaves the pod its own grace period`,
		}},
		{"negative transition period", "evictionPressureTransitionPeriod: -5m", []string{
			`evictionPressureTransitionPeriod: Invalid value: "-5m0s": must not be negative`,
		}},
		{"unknown memoryAvailable", "memoryAvailable: free", []string{
			`memoryAvailable: Unsupported value: "free": supported values: "kernel", "workingSet"`,
		}},
		{"unknown disruptionBudgets", "disruptionBudgets: ignore", []string{
			`disruptionBudgets: Unsupported value: "ignore": supported values: "bestEffort", "respect"`,
		}},
		{"stall without a threshold", "memoryStall: {}", []string{
			`memoryStall.threshold: Required value: a percentage of the window, such as "10%"`,
		}},
		{"stall that makes no sense", "memoryStall: {type: most, threshold: 100Mi, window: 2h}", []string{
			`memoryStall.type: Unsupported value: "most": supported values: "some", "full"`,
			`memoryStall.threshold: Invalid value: "100Mi": must be a percentage of the window, such as "10%"`,
			`memoryStall.window: Invalid value: "2h0m0s": must be between 500ms and 1m0s`,
		}},
		{"stall between two samples", "memoryStall: {threshold: 0.5%, window: 1s}\nsampling: {maxInterval: 2s}", []string{
			`memoryStall.threshold: Invalid value: "0.5%": must be between 1% and 99%: remove memoryStall to switch it off`,
			`memoryStall.window: Invalid value: "1s": must not be shorter than sampling.maxInterval, 2s: there would be no sample in between`,
		}},
		{"stall of all or nothing", "memoryStall: {threshold: 100%, window: -1s}", []string{
			`memoryStall.threshold: Invalid value: "100%": must be between 1% and 99%: remove memoryStall to switch it off`,
			`memoryStall.window: Invalid value: "-1s": must be between 500ms and 1m0s`,
		}},
		{"sampling too fast", "sampling: {minInterval: 0s}", []string{
			`sampling.minInterval: Invalid value: "0s": must be at least 1ms`,
		}},
		{"sampling too slow", "sampling: {maxInterval: 11s}", []string{
			`sampling.maxInterval: Invalid value: "11s": must be at most 10s`,
		}},
		{"sampling at no time", "sampling: {maxInterval: 0s}", []string{
			`sampling.maxInterval: Invalid value: "0s": must be at least 1ms`,
		}},
		{"sampling the wrong way round", "sampling: {minInterval: 2s, maxInterval: 1s}", []string{
			`sampling.maxInterval: Invalid value: "1s": must not be shorter than minInterval, 2s`,
		}},
		{"priority 0", "protect: {priorityAtLeast: 0}", []string{
			`protect.priorityAtLeast: Invalid value: 0: must be between 1 and 2000000000; from 2000000000 on a pod is protected in any case`,
		}},
		{"priority above the system's", "protect: {priorityAtLeast: 2000000001}", []string{
			`protect.priorityAtLeast: Invalid value: 2000000001: must be between 1 and 2000000000; from 2000000000 on a pod is protected in any case`,
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
		{"everything at once", "dryRun: yes please\nevictionHard: {memory.available: 100.0%, cpu.available: 5%}\nevictionSoft: {nodefs.available: 15%}\nlimits: {evictionsPerMinute: 0}\nqueue: []", []string{
			`dryRun: Invalid value: "yes please": must be true or false`,
			`queue: Forbidden: unknown field: did you mean queues?`,
			`evictionHard[cpu.available]: Invalid value: "5%": unknown signal: must be one of memory.available, kubeletMemory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available`,
			`evictionHard[memory.available]: Invalid value: "100.0%": would always be met: write "100%" to switch the threshold off, or a smaller percentage`,
			`evictionSoftGracePeriod[nodefs.available]: Required value: the soft threshold of this signal needs a grace period: add one`,
			`limits.evictionsPerMinute: Invalid value: 0: must be at least 1: use dryRun to evict no pod`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, lines(t, head+tc.file+"\n")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
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
	for _, tc := range []struct {
		name string
		file string
		want []string
	}{
		{"none", "dryRun: true", []string{
			`apiVersion: Required value: must be evictd.dev/v1alpha1`,
			`kind: Required value: must be EvictdConfiguration`,
		}},
		{"a kubelet's file", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.0.0.10]", []string{
			`apiVersion: Invalid value: "kubelet.config.k8s.io/v1beta1": must be evictd.dev/v1alpha1: this is not a file for this version of evictd`,
			`kind: Invalid value: "KubeletConfiguration": must be EvictdConfiguration: this is not a file for this version of evictd`,
		}},
		{"another version", "apiVersion: evictd.dev/v1\nkind: EvictdConfiguration", []string{
			`apiVersion: Invalid value: "evictd.dev/v1": must be evictd.dev/v1alpha1: this is not a file for this version of evictd`,
		}},
		{"not text", "apiVersion: 1\nkind: true", []string{
			`apiVersion: Invalid value: 1: must be text: put it in quotes`,
			`kind: Invalid value: true: must be text: put it in quotes`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, lines(t, tc.file)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
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
		{"a tab", head + "limits:\n\tevictionsPerMinute: 1\n", "not YAML: "},
		{"a text", "hello", "the file holds plain text, not fields and values"},
		{"a number", "5", "the file holds a number, not fields and values"},
		{"a bool", "true", "the file holds true or false, not fields and values"},
		{"a list", "- a\n", "the file holds a list, not fields and values"},
		{"NUL bytes", head + "\x00", "a NUL byte at offset 58"},
		{"not UTF-8", head + "# \xff\n", "not UTF-8"},
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
	c := mustParse(t, head+"evictionHard: &lines {memory.available: 5%}\nevictionSoft: {<<: *lines, memory.available: 8%}\nevictionSoftGracePeriod: {memory.available: 1m}\n")
	if diff := cmp.Diff(map[string]string{"memory.available": "8%"}, c.EvictionSoft); diff != "" {
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
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 4 * time.Minute},
		EvictionMaxPodGracePeriod:        60,
		EvictionHardPodGracePeriod:       5,
		EvictionOverdueGracePeriod:       90,
		MemoryAvailable:                  MemoryWorkingSet,
		MemoryStall:                      &MemoryStall{Type: StallSome, Threshold: "10%", Window: metav1.Duration{Duration: 3 * time.Second}},
		Sampling: Sampling{
			MinInterval: metav1.Duration{Duration: 20 * time.Millisecond},
			MaxInterval: metav1.Duration{Duration: 2 * time.Second},
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
