package sim

import (
	"flag"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttools "k8s.io/client-go/tools/record"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/testing/golden"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden file")

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

// recorded plays a scenario with the recorder of evictd run, and returns the record of it. It is called in a bubble.
func recorded(t *testing.T, s *Scenario, policy agent.Policy) *history.Record {
	t.Helper()
	dir := t.TempDir()
	w, err := history.NewWriter(dir, history.Options{Now: time.Now, MaxSize: 1 << 30, Failed: func(err error) { t.Error(err) }, Complete: func(d *status.Document) {
		d.APIVersion, d.Kind, d.EvictdVersion, d.NodeName, d.Configuration = status.APIVersion, status.Kind, "v1", "node-1", config.Default()
	}})
	if err != nil {
		t.Fatal(err)
	}
	end := w.Start()
	s.changes = func(o *agent.Options) {
		o.Keep = w.Document
		o.Recorder = record.New(record.Also(zap.NewNop(), w), prometheus.NewRegistry(), &clienttools.FakeRecorder{}, record.Settings{
			NodeName: "node-1", Now: time.Now, OOMKills: o.OOMKills, WatchAge: func() (time.Duration, bool) { return 0, false },
		})
	}
	if _, err = s.Play(t.Context().Err, Both, policy, 1, func(Event) {}); err != nil {
		t.Fatal(err)
	}
	end()
	r, err := history.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// leakBesideBudget is a pod that leaks beside one that a budget keeps.
func leakBesideBudget() *Scenario {
	return &Scenario{
		Duration: seconds(420), Node: Machine{Memory: resource.MustParse("16Gi"), System: Curve{From: resource.MustParse("1Gi")}},
		Pods: []Workload{
			{Name: "leak", Namespace: "shop", Request: resource.MustParse("512Mi"), Memory: Curve{Shape: ShapeLeak, From: resource.MustParse("300Mi"), To: resource.MustParse("20Gi"), After: seconds(30), Over: seconds(480)}},
			{Name: "small", Namespace: "shop", Request: resource.MustParse("100Mi"), Memory: Curve{From: resource.MustParse("1200Mi")}},
			{Name: "blocked", Namespace: "shop", Request: resource.MustParse("512Mi"), Memory: Curve{From: resource.MustParse("6Gi")}, MaxUnavailable: new(int32(0))},
		},
	}
}

// TestRecordTellsIncidents plays a pod that leaks beside a budget, and reads what the record tells.
func TestRecordTellsIncidents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := leakBesideBudget()
		policy := HardPolicy()
		policy.Transition = time.Minute
		r := recorded(t, s, policy)
		var out strings.Builder
		all, err := r.Incidents(time.Time{})
		if err == nil {
			err = history.WriteIncidents(&out, all)
		}
		for _, i := range all {
			out.WriteString("\n")
			if err == nil {
				err = r.Show(&out, i.ID)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/incidents.txt", out.String(), *updateGolden, "go test ./internal/sim -update")
	})
}
