package main

import (
	"cmp"
	"context"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// Scenario is one incident: what is on the node, what happens, and which pods should end. Both
// arms get the same.
type Scenario struct {
	// Number is the scenario's, in the table and for --only.
	Number int
	// Name says in a few words what happens; What in one sentence, for the page.
	Name, What string
	// Signal is that of the lines; "" is memory.available. A disk's is node.ImageSpace.
	Signal string
	// Before prepares the node before the pods are made; nil is nothing.
	Before func(context.Context, *turn) error
	// Pods are those beside the common ones (see common).
	Pods []Pod
	// AboveMiB is how far above evictd's soft line the node is when the steps begin, beside
	// what the pods take at once. It varies by 200 MiB with the seed, unless Exact is set, where
	// what is taken must end at a certain distance.
	AboveMiB int64
	Exact    bool
	// DiskAboveMiB is how far above evictd's line of the disk a scenario of the disk begins. It
	// varies by DiskVariesMiB with the seed.
	DiskAboveMiB, DiskVariesMiB int64
	// Steps are done one after the other; the first begins the incident.
	Steps []Step
	// Smallest is the smallest set of victims that ends the incident, in pods for each app; nil
	// is none: no eviction is needed, or none would help. Any as a number allows each pod of the app.
	Smallest map[string]int
	// Elsewhere has replacements of the pods wait for another node: the node is cordoned when all pods
	// run. Otherwise they come back to it at once, in the middle of the incident.
	Elsewhere bool
	// Config are further lines of evictd's configuration. ByDefault leaves its thresholds to the shipped one: percentages,
	// of which those of the pods' limit are the stand-in node's.
	Config    string
	ByDefault bool
	// Lasts is how long the steps and what follows may take. The run ends earlier once the
	// smallest set has something in it and the node is calm (see calmFor), unless Whole is set.
	Lasts time.Duration
	Whole bool
}

// onDisk reports whether the lines are of a disk.
func (s *Scenario) onDisk() bool { return s.Signal == node.ImageSpace }

// signal is the signal's name.
func (s *Scenario) signal() string { return cmp.Or(s.Signal, node.NodeMemory) }

// Any is the number of an app that may end any number of times: it comes back and does it again.
const Any = -1

// Pod is a Deployment of the scenario.
type Pod struct {
	node.Workload

	// FirstMiB is what it takes at once when it begins; Rate is at how many bytes a second it
	// takes the rest of UsesMiB.
	FirstMiB int64
	Rate     int64
	// DropsMiB is what it gives back whenever it has all, to take it again, without end; 0 is nothing.
	DropsMiB int64
	// CPU is its CPU request; "" is none.
	CPU string
	// Waits says that it takes and writes nothing before the step that begins it. Then only the
	// pods that run at that moment do, or, with Again, each replacement too.
	Waits, Again bool
	// Keeps is its budget's minAvailable; 0 is no budget.
	Keeps int32
	// PreStop is how long its preStop hook takes; 0 is none. Grace is its grace period; 0 is
	// the default, 30 s.
	PreStop, Grace time.Duration
	// Top gives it the highest priority that is not the system's.
	Top bool
	// CacheMiB is page cache that it keeps active, of a file without blocks.
	CacheMiB int64
	// Grows is a file that it allocates blocks for, without data; nil is none.
	Grows *Growth
}

// count is how many pods its Deployment has.
func (p *Pod) count() int64 { return int64(max(p.Replicas, 1)) }

// Growth is a file that uses the node's disk.
type Growth struct {
	// Path is in the container: /data is an emptyDir, the rest is the writable layer.
	Path string
	// MiB is its size, Rate how many bytes a second it grows by; 0 is at once.
	MiB, Rate int64
	// StopsAtPercent sets its size such that this share of the disk stays available; 0 is MiB.
	StopsAtPercent int64
	// Deleted says that its name is removed first.
	Deleted bool
}

// Step is something that happens in a scenario.
type Step struct {
	// What is for the timeline.
	What string
	// Wait waits for the right moment; nil is at once.
	Wait func(context.Context, *turn) error
	// Do does it.
	Do func(context.Context, *turn) error
}

// The common pods: a service with three replicas, whose budget allows one disruption and which
// a steady client asks; a small pod; a pod a little over its request.
const (
	webApp, beatApp, modestApp = "web", "beat", "modest"
)

func common(address string) []Pod {
	return []Pod{
		{Workload: node.Workload{
			Name: webApp, Replicas: 3, UsesMiB: 40, AsksMiB: 64, LimitMiB: 128, Flags: []string{"--serve=" + address},
		}, Keeps: 2},
		{Workload: node.Workload{Name: beatApp, UsesMiB: 8, AsksMiB: 32, LimitMiB: 64}},
		{Workload: node.Workload{Name: modestApp, UsesMiB: 120, AsksMiB: 100, LimitMiB: 200}},
	}
}

// innocents are the apps whose end counts against the arm: all that need not end.
func (s *Scenario) innocents() []string {
	apps := []string{webApp, beatApp, modestApp}
	for i := range s.Pods {
		if app := s.Pods[i].Name; s.Smallest[app] == 0 {
			apps = append(apps, app)
		}
	}
	return apps
}

// takesAtOnceMiB is what the pods take when they begin.
func (s *Scenario) takesAtOnceMiB() int64 {
	sum := int64(0)
	for i := range s.Pods {
		if s.Pods[i].Waits {
			sum += s.Pods[i].FirstMiB * s.Pods[i].count()
		}
	}
	return sum
}

// after waits for a time.
func after(d time.Duration) func(context.Context, *turn) error {
	return func(ctx context.Context, _ *turn) error { return measure.Sleep(ctx, d) }
}

// begin lets pods take and write what they are there for.
func begin(apps ...string) Step {
	return Step{What: "the incident begins", Do: func(ctx context.Context, t *turn) error { return t.begin(ctx, apps) }}
}
