package record_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/pkg/pressure"
)

// incidentEnded is a shortage in which evictd, the kubelet and others all acted.
func incidentEnded(change func(*incident.Incident)) incident.Incident {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	i := incident.Incident{
		ID: "memory.available-20260102T030405.000Z", Signal: pressure.MemoryAvailable,
		Began: began, Short: began.Add(90 * time.Second), Lowest: 7,
		Victims: []incident.Victim{{Pod: "shop/a", UID: "a"}, {Pod: "shop/b", UID: "b", DryRun: true}},
		During:  incident.Others{OOMKills: 2, Kubelets: []string{"shop/c"}},
	}
	change(&i)
	return i
}

// TestIncidentsLastLine: the last line of an incident reports what evictd, the kubelet and others
// did.
func TestIncidentsLastLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*incident.Incident)
		want   string
	}{
		"everything": {
			func(*incident.Incident) {},
			"evictd evicted shop/a; dry run: evictd would have evicted shop/b; the kubelet evicted shop/c, the kernel killed 2 processes for want of memory",
		},
		"nothing": {
			func(i *incident.Incident) { i.Victims, i.During = nil, incident.Others{} },
			"evictd evicted no pod; the kubelet and the kernel ended nothing",
		},
		"a dry run in which nothing else happened": {
			func(i *incident.Incident) { i.Victims, i.During = i.Victims[1:], incident.Others{} },
			"dry run: evictd would have evicted shop/b; the kubelet and the kernel ended nothing",
		},
		"the kernel is not known": {
			func(i *incident.Incident) { i.Victims, i.During = i.Victims[:1], incident.Others{OOMKills: -1} },
			"evictd evicted shop/a; whether the kernel killed a process for want of memory is not known",
		},
		"more than fit a sentence": {
			func(i *incident.Incident) {
				i.Victims, i.More, i.During = nil, 5, incident.Others{}
				for _, pod := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
					i.Victims = append(i.Victims, incident.Victim{Pod: pod, UID: pod})
				}
			},
			"evictd evicted 1, 2, 3, 4, 5, 6, 7, 8 and 7 more; the kubelet and the kernel ended nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Incidents(nil, []incident.Incident{incidentEnded(test.change)})
			line := r.lines(t)[0]
			if line["msg"] != "incident ended" || line["detail"] != test.want || line["duration_seconds"] != 90. {
				t.Errorf("got %v, want the detail %q", line, test.want)
			}
		})
	}
}
