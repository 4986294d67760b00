package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

// Each warning begins with the path of its field.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const soft = "evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 30s}\n"
	for _, test := range []struct {
		file string
		want []string // the paths
	}{
		{"", nil},
		{"queues: [{name: a, namespaces: [a], properties: {priority.offset: '1000000000'}}]", nil},
		{"queues: [{name: a, namespaces: [a], properties: {priority.offset: '1000000001'}}]", []string{"queues[0].properties[priority.offset]"}},
		{
			"queues: [{name: a, properties: {priority.offset: '600000000'}, queues: [{name: b, namespaces: [b], properties: {priority.offset: '600000000'}}]}]",
			[]string{"queues[0].queues[0].properties[priority.offset]"},
		},
		{"disruptionBudgets: bestEffort", nil},
		{soft + "evictionHard: {}\ndisruptionBudgets: bestEffort", []string{"evictionHard", "disruptionBudgets"}},
		{"evictionHard: {}", []string{"evictionHard"}},
		{"evictionHard: {memory.available: 0%}", []string{"evictionHard"}},
		{"evictionHard: {}\nmemoryStall: {threshold: 10%}", nil},
		{strings.Replace(soft, "30s", "0s", 1) + "evictionHard: {}", nil},
		{"evictionHard: {memory.available: 80%, nodefs.available: 80.5%, imagefs.available: 100%}", []string{"evictionHard[nodefs.available]"}},
		{strings.Replace(soft, "10%", "90%", 1), []string{"evictionSoft[memory.available]"}},
		{"evictionHard: {memory.available: 1Ti, nodefs.available: 1Ti}", []string{"evictionHard[memory.available]"}},
		{"evictionHard: {allocatableMemory.available: 2Ti}", []string{"evictionHard[allocatableMemory.available]"}},
		{"evictionHard: {memory.available: 1000Gi}", nil},
		{"protect: {namespaces: []}", []string{"protect.namespaces"}},
		{"protect: {namespaces: [monitoring]}", []string{"protect.namespaces"}},
		{"protect: {namespaces: [monitoring, kube-system]}", nil},
	} {
		wantPaths(t, test.file, mustParse(t, head+test.file+"\n").Warnings(nil), test.want)
	}
}

// A node of 100 GiB of memory and disk, with inodes that are not known.
func TestWarningsOnANode(t *testing.T) {
	t.Parallel()
	capacity := func(signal pressure.Signal) int64 {
		if signal == pressure.NodeFSInodesFree {
			return 0
		}
		return 100 << 30
	}
	for file, want := range map[string][]string{
		"": nil,
		"evictionHard: {memory.available: 80Gi, nodefs.inodesFree: '1000000000000'}":               nil,
		"evictionHard: {memory.available: 81Gi}":                                                   {"evictionHard[memory.available]"},
		"evictionHard: {nodefs.available: 1Ti}":                                                    {"evictionHard[nodefs.available]"},
		"evictionHard: {memory.available: 1Ti}\nprotect: {namespaces: []}":                         {"evictionHard[memory.available]", "protect.namespaces"},
		"evictionSoft: {nodefs.available: 90Gi}\nevictionSoftGracePeriod: {nodefs.available: 30s}": {"evictionSoft[nodefs.available]"},
		"evictionHard: {memory.available: 1Gi}\nevictionMinimumReclaim: {memory.available: 99Gi}":  nil,
		"evictionHard: {memory.available: 1Gi}\nevictionMinimumReclaim: {memory.available: 100Gi}": {"evictionMinimumReclaim[memory.available]"},
	} {
		got := mustParse(t, head+file+"\n").Warnings(capacity)
		wantPaths(t, file, got, want)
		if len(got) == 1 && !strings.Contains(got[0], "the 100.0Gi that this node has") {
			t.Errorf("%s: %s", file, got[0])
		}
	}
}

func wantPaths(t *testing.T, file string, warnings, want []string) {
	t.Helper()
	var got []string
	for _, warning := range warnings {
		path, _, _ := strings.Cut(warning, ": ")
		got = append(got, path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: warnings %q, want at %q", file, warnings, want)
	}
}
