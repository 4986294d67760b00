package config

import (
	"testing"

	"github.com/evictd/evictd/pkg/rank"
)

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
	if !a.Fence || a.Offset != -100 || a.IgnorePriority || a.GuaranteedMemory != 8<<30 {
		t.Errorf("queue a: %+v", a)
	}
	if batch.Fence || batch.Offset != 0 || !batch.IgnorePriority {
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
