package record_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
)

// TestFaultRefusedEditHasAnEvent: a refused edit was only in each node's log and in a metric. It
// must also be on the node or on evictd's pod, where the editor of the configuration looks.
func TestFaultRefusedEditHasAnEvent(t *testing.T) {
	t.Parallel()
	const onNode, onPod = "Node node-1 " + "node-1", "Pod evictd/evictd-x uid-self"
	for _, test := range []struct {
		name string
		self nodepods.Self
		tell func(*record.Recorder, error)
		want []string // the objects
		text string
	}{
		{
			"an edit",
			nodepods.Self{UID: "uid-self", Namespace: "evictd", Name: "evictd-x"},
			func(r *record.Recorder, err error) { r.Refused(err, "") },
			[]string{onNode, onPod},
			"evictd refuses the edit of its configuration, and the one before stays in force: limits: x; protect: y",
		},
		{
			"outside a cluster",
			nodepods.Self{},
			func(r *record.Recorder, err error) { r.Refused(err, "") },
			[]string{onNode},
			"evictd refuses the edit of its configuration",
		},
		{
			"at the start",
			nodepods.Self{UID: "uid-self", Namespace: "evictd", Name: "evictd-x"},
			func(r *record.Recorder, err error) {
				r.Refused(err, "the last valid one is in force, in dry run")
			},
			[]string{onNode, onPod},
			"evictd refuses its configuration at the start, and the last valid one is in force, in dry run: limits: x; protect: y",
		},
		{
			"an edit that is applied",
			nodepods.Self{UID: "uid-self"},
			func(r *record.Recorder, _ error) { r.InForce(nil, true) },
			nil, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := &events{}
			r := record.New(zap.NewNop(), prometheus.NewRegistry(), e, record.Settings{NodeName: "node-1", Self: test.self, Now: time.Now})
			test.tell(r, errors.New("limits: x; protect: y"+strings.Repeat(" and so on", 200)))
			var told []string
			for _, written := range e.all {
				told = append(told, written.object)
				if written.kind != "Warning" || written.reason != "ConfigurationRefused" || !strings.HasPrefix(written.message, test.text) || len(written.message) > 1024 {
					t.Errorf("%+v", written)
				}
			}
			if !slices.Equal(told, test.want) {
				t.Errorf("told %q, want %q", told, test.want)
			}
		})
	}
}
