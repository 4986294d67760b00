package config

import (
	"testing"

	"github.com/evictd/evictd/pkg/rank"
)

func TestQueueFaults(t *testing.T) {
	t.Parallel()
	checkFaults(t, head, []faulty{
		{"a whole tree", `queues:
- name: a
  namespaces: [team-a, team-a-*]
  guaranteed: {memory: 8Gi}
  properties: {priority.policy: Fence, priority.offset: "-100", application.sort.priority: DISABLED}
  queues: [{name: batch, podSelector: {matchLabels: {kind: batch}}}, {name: web, namespaces: [team-a-web, team-a-x*]}]
- {name: b, namespaces: [team-b]}`, nil},
		{"no name, no pods", "queues: [{}]", []string{
			`queues[0].name: Required value: names the queue in the ranking`,
			`queues[0]: Required value: holds no pod: set namespaces or podSelector, or queues below`,
		}},
		{"an empty selector chooses nothing", "queues: [{name: a, podSelector: {}}]", []string{
			`queues[0]: Required value: holds no pod: set namespaces or podSelector, or queues below`,
		}},
		{"a name that is a path", "queues: [{name: a.b, namespaces: [a]}]", []string{
			`queues[0].name: Invalid value: "a.b": must be 1 to 64 letters, digits, - and _`,
		}},
		{"the same name twice, and once below", "queues: [{name: a, namespaces: [a], queues: [{name: a, podSelector: {matchLabels: {b: c}}}]}, {name: a, namespaces: [b]}]", []string{
			`queues[1].name: Duplicate value: "a"`,
		}},
		{"namespaces that cannot be", "queues: [{name: a, namespaces: [Team, t*m, a-*, '*']}]", []string{
			"queues[0].namespaces[0]: Invalid value: \"Team\": must be the name of a namespace, or the beginning of one and *: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
			`queues[0].namespaces[1]: Invalid value: "t*m": may have * at its end only`,
		}},
		{"a namespace in two queues", "queues: [{name: a, namespaces: [x, team-*]}, {name: b, namespaces: [team-b]}, {name: c, namespaces: [x]}]", []string{
			`queues[1].namespaces[0]: Invalid value: "team-b": is in queues[0].namespaces[1] too: a namespace belongs to one queue, unless both choose its pods by podSelector`,
			`queues[2].namespaces[0]: Invalid value: "x": is in queues[0].namespaces[0] too: a namespace belongs to one queue, unless both choose its pods by podSelector`,
		}},
		{"a namespace in two queues by labels", "queues: [{name: a, namespaces: [x], podSelector: {matchLabels: {a: b}}}, {name: b, namespaces: [x], podSelector: {matchLabels: {a: c}}}]", nil},
		{"a namespace that the queue above has not", "queues: [{name: a, namespaces: [team-*], queues: [{name: b, namespaces: [team-b, other]}]}]", []string{
			`queues[0].queues[0].namespaces[1]: Invalid value: "other": is not among the namespaces of the queue above, so no pod could belong here`,
		}},
		{"a bad selector", "queues: [{name: a, podSelector: {matchExpressions: [{key: a, operator: In}]}}]", []string{
			"queues[0].podSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		}},
		{"guarantees that cannot be", "queues: [{name: a, namespaces: [a], guaranteed: {memory: 10%, cpu: '1'}}, {name: b, namespaces: [b], guaranteed: {memory: '0'}}]", []string{
			`queues[0].guaranteed[cpu]: Unsupported value: "cpu": supported values: "memory"`,
			`queues[0].guaranteed[memory]: Invalid value: "10%": must be an amount of bytes, such as "8Gi"`,
			`queues[1].guaranteed[memory]: Invalid value: "0": must be above 0: remove it to guarantee nothing`,
		}},
		{"properties that cannot be", "queues: [{name: a, namespaces: [a], properties: {priority.policy: fenced, priority.offset: '2147483648', application.sort.priority: 'no', preemption.policy: fence}}]", []string{
			`queues[0].properties[application.sort.priority]: Unsupported value: "no": supported values: "enabled", "disabled"`,
			`queues[0].properties[preemption.policy]: Unsupported value: "preemption.policy": supported values: "application.sort.priority", "priority.offset", "priority.policy"`,
			`queues[0].properties[priority.offset]: Invalid value: "2147483648": must be a whole number from -2147483648 to 2147483647`,
			`queues[0].properties[priority.policy]: Unsupported value: "fenced": supported values: "default", "fence"`,
		}},
	})
}

func TestQueuesAsTheyAreRanked(t *testing.T) {
	t.Parallel()
	c := mustParse(t, head+`
queues:
- name: a
  namespaces: [team-a, team-a-*]
  guaranteed: {memory: 8Gi}
  properties: {priority.policy: Fence, priority.offset: "-100"}
  queues: [{name: batch, podSelector: {matchLabels: {kind: batch}}, properties: {application.sort.priority: Disabled}}]
- {name: group, queues: [{name: b, namespaces: [team-b]}]}
`)
	queues := c.Rules().Queues
	a, batch, group := queues[0], queues[0].Queues[0], queues[1]
	if !a.Fence || a.Offset != -100 || a.IgnorePriority || a.GuaranteedMemory != 8<<30 || a.ByLabels {
		t.Errorf("queue a: %+v", a)
	}
	if batch.Fence || batch.Offset != 0 || !batch.IgnorePriority || !batch.ByLabels {
		t.Errorf("queue batch: %+v", batch)
	}
	if group.Holds != nil || len(group.Queues) != 1 {
		t.Errorf("queue group: %+v", group)
	}
	for _, test := range []struct {
		queue     rank.Queue
		namespace string
		kind      string
		want      bool
	}{
		{a, "team-a", "", true},
		{a, "team-a-x", "", true},
		{a, "team-b", "", false},
		{a, "team-abc", "", false},
		{batch, "anything", "batch", true}, // the queue above was checked before
		{batch, "team-a", "web", false},
		{group.Queues[0], "team-b", "", true},
	} {
		if got := test.queue.Holds(test.namespace, map[string]string{"kind": test.kind}); got != test.want {
			t.Errorf("queue %s holds a pod of %s, kind %q: %v, want %v", test.queue.Name, test.namespace, test.kind, got, test.want)
		}
	}
}
