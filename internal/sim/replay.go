package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

const (
	// stops is how long a pod takes to end that did not end in the record, and starts how long its replacement takes.
	stops, starts = time.Second, 5 * time.Second
	// inTime is how long before an OOM kill a request comes in time.
	inTime = time.Minute
	// growth is how long before its eviction a pod's growth is taken from.
	growth = time.Minute
)

// Replayed is what an evictd did on the node of a record.
type Replayed struct {
	// Requests are those that it sent, in their order.
	Requests []Request
	// Model is from when on the node is a model, because another pod was evicted than in the record, or none; the zero
	// time where that did not happen.
	Model time.Time
	// Below is how long a signal was below a hard line.
	Below time.Duration
	// InTime is how many OOM kills of the record had a victim in the minute before that the record does not have.
	InTime int
	// Unknown are the signals with a threshold that the record does not have: none of their thresholds was met.
	Unknown []pressure.Signal
}

// Replay lets an evictd live through a recording, with the policy that is made of each configuration of the record. It must
// be called in a bubble of testing/synctest whose time is before the record. An error is the agent's, or of that time.
func (n *Recording) Replay(policy func(*config.EvictdConfiguration) agent.Policy) (*Replayed, error) {
	r := &replay{Recording: n, replayed: &Replayed{}, asked: map[string]time.Time{}, made: map[string]*course{}}
	r.node = New(0)
	first := n.readings[0].at
	if time.Now().After(first) {
		return nil, errors.New("the record begins before the year 2000: the node's clock was wrong")
	}
	time.Sleep(time.Until(first))
	ctx, stop := context.WithDeadline(context.Background(), n.end().Add(time.Second))
	defer stop()
	err := r.runs(ctx, policy)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count()
	return r.replayed, err
}

// count adds what the requests and the record say together. mu is held.
func (r *replay) count() {
	for _, at := range r.kills {
		if slices.ContainsFunc(r.replayed.Requests, func(q Request) bool {
			was := r.pods[q.UID]
			return q.Outcome.Accepted() && q.Time.Before(at) && at.Sub(q.Time) < inTime && (was == nil || was.asked.IsZero() || was.asked.After(at))
		}) {
			r.replayed.InTime++
		}
	}
	for _, t := range r.policy.Thresholds {
		known := func(seen reading) bool { return seen.seen[t.Signal].state == pressure.Known }
		if !slices.ContainsFunc(r.readings, known) && !slices.Contains(r.replayed.Unknown, t.Signal) {
			r.replayed.Unknown = append(r.replayed.Unknown, t.Signal)
		}
	}
}

// replay is the node of a record with another evictd on it. Until that evicts another pod it is as recorded; then what
// differs is a model: a pod that is evicted gives back what it held, and one that is not keeps it.
type replay struct {
	*Recording
	node     *Node // takes what is recorded
	mu       sync.Mutex
	policy   agent.Policy
	asked    map[string]time.Time // when evictions were taken, by UID
	made     map[string]*course   // replacements, by UID
	below    time.Time            // since when a signal is; the zero time where none is
	replayed *Replayed
}

// runs starts evictd as often as it started in the record.
func (r *replay) runs(ctx context.Context, policy func(*config.EvictdConfiguration) agent.Policy) error {
	file, remembered := &File{}, &agent.State{InFlight: inflight.State{Victims: r.inFlight}}
	if r.careful {
		remembered = nil
	}
	for ctx.Err() == nil {
		life, killed := context.WithCancel(ctx)
		for _, at := range r.starts {
			if after := time.Until(at); after > 0 {
				time.AfterFunc(after, killed)
				break
			}
		}
		wake := make(chan struct{}, 1)
		options := r.options(policy, file, remembered)
		options.Wake = wake
		a := agent.New(options)
		r.reloads(life, a, policy)
		go r.wakes(life, wake)
		err := a.Run(life)
		killed()
		if err == nil {
			remembered, err = file.Load()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wakes makes evictd look at the node whenever the record has a line of it: what it decided by, it decides by again.
func (r *replay) wakes(ctx context.Context, wake chan<- struct{}) {
	for i := r.index(time.Now()) + 1; i < len(r.readings); i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(r.readings[i].at)):
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// options are an evictd's on the node.
func (r *replay) options(policy func(*config.EvictdConfiguration) agent.Policy, file *File, remembered *agent.State) agent.Options {
	return agent.Options{
		Policy: r.adopt(policy), Sample: r.sample, Pods: r, Evictor: r, Recorder: replayer{recorder{r.node}, r}, Taints: untainted{},
		Random: func() float64 { return 0 }, Save: file.Save, Remembered: remembered, OOMKills: r.oomKills,
		KubeletGap: func(time.Time) int64 { return 0 }, Held: func(string) (usage.Detail, error) { return nil, nil },
		Measure: measure.Options{Cgroups: r, Disk: r, Fault: func(string, error) {}},
	}
}

// adopt returns the policy of the configuration that is now.
func (r *replay) adopt(policy func(*config.EvictdConfiguration) agent.Policy) agent.Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.policy = policy(r.readings[r.index(time.Now())].config)
	r.policy.Acting = func() acting.State { return r.readings[r.index(time.Now())].acts }
	return r.policy
}

// reloads gives evictd the configurations that the record has in its life.
func (r *replay) reloads(ctx context.Context, a *agent.Agent, policy func(*config.EvictdConfiguration) agent.Policy) {
	for i := r.index(time.Now()) + 1; i < len(r.readings); i++ {
		if r.readings[i].config != r.readings[i-1].config {
			time.AfterFunc(time.Until(r.readings[i].at), func() {
				if ctx.Err() == nil {
					a.Reload(ctx, r.adopt(policy), r.sample)
				}
			})
		}
	}
}

// replayer keeps the requests of the decisions. It implements [agent.Recorder].
type replayer struct {
	recorder
	replay *replay
}

// Decision keeps the requests.
func (p replayer) Decision(d *decide.Decision) {
	r := p.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range d.Attempts {
		a := &d.Attempts[i]
		r.replayed.Requests = append(r.replayed.Requests, Request{d.Time, d.Pressure.Threshold.Signal, history.Request{
			Pod: a.Entry.Pod.Key(), UID: a.Entry.Pod.UID, Rank: a.Entry.Position,
			Outcome: a.Result.Outcome, Message: a.Result.Message, Budget: a.Result.Budget, Again: a.Escalates,
		}})
	}
}
