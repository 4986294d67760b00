package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// HardPolicy evicts below a tenth of the memory, pods within their requests too.
func HardPolicy() agent.Policy {
	return agent.Policy{
		Policy: decide.Policy{
			Thresholds:     []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.1), Hard: true}},
			Rules:          rank.Rules{DaemonSets: true, BarePods: true},
			WithinRequests: decide.WithinRequestsNever,
		},
		Pacing: pressure.Pacing{Min: 10 * time.Millisecond, Max: time.Second},
	}
}

// enforced makes a policy one of an agent that acts unless it is a dry run.
func enforced(policy agent.Policy) agent.Policy {
	answer := acting.State{}
	if policy.DryRun {
		answer.Reason = acting.Configured
	}
	if policy.Acting == nil {
		policy.Acting = func() acting.State { return answer }
	}
	return policy
}

// Options are an agent's of the node, which keeps its state in the file and knows that there was nothing before.
func (n *Node) Options(policy agent.Policy, f *File) agent.Options {
	save := func(s any) func() {
		n.reach("before the state is saved")
		return f.Save(s)
	}
	return agent.Options{
		Policy: enforced(policy), Sample: n.Sample, Pods: n, Evictor: n, Recorder: recorder{n},
		Random: func() float64 { return 0 }, Save: save, Remembered: &agent.State{},
		OOMKills: n.oomKills, KubeletGap: func(time.Time) int64 { return n.gap }, Held: n.detailOf, Taints: untainted{},
		Measure: measure.Options{Cgroups: n, Disk: n.disk, Fault: recorder{n}.Failed},
	}
}

// untainted is a node that keeps no taints.
type untainted struct{}

func (untainted) Want(taint.Wanted)             {}
func (untainted) Settled(context.Context) error { return nil }

// File is a state directory: what is saved is what a file would have.
type File struct {
	mu    sync.Mutex
	text  []byte
	saves int // that changed it
	err   error
}

const bootOfFile = "boot"

// Save implements [agent.Options.Save].
func (f *File) Save(s any) func() {
	text, err := state.Encode(s, bootOfFile)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	if string(text) != string(f.text) {
		f.text = text
		f.saves++
	}
	return func() {}
}

// Load returns what a process finds that is started now; nil where there is nothing.
func (f *File) Load() (*agent.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.text == nil || f.err != nil {
		return nil, f.err
	}
	s := &agent.State{}
	return s, state.Decode(f.text, bootOfFile, s)
}

// Copy returns the file as it is now, for a process that is killed at this moment.
func (f *File) Copy() *File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &File{text: slices.Clone(f.text)}
}
