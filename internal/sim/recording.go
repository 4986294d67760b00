package sim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"reflect"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Recording is a node as a record tells of it.
type Recording struct {
	readings []reading // in their order
	pods     map[string]*course
	requests []Request
	starts   []time.Time     // of evictd
	kills    []time.Time     // of the kernel, by pod
	applied  time.Time       // when a configuration was last
	careful  bool            // the first start found no state of a container before
	inFlight []decide.Victim // at the beginning
}

// reading is what a line says of the node. A day has 86,400: what seldom changes is shared.
type reading struct {
	at        time.Time
	available [pressure.SignalCount]int64 // without would-be victims
	*circumstances
}

// circumstances are the same in many readings.
type circumstances struct {
	seen     [pressure.SignalCount]seen
	acts     acting.State
	config   *config.EvictdConfiguration
	unknown  string    // why the list of the pods is; "" where it is not
	measured time.Time // when the pods' use of the disks was asked for last
}

// seen is a signal but for what is available.
type seen struct {
	state    pressure.State
	capacity int64
	reason   string // why it is not known
}

// observations are those of a sample.
func (r *reading) observations() (all [pressure.SignalCount]pressure.Observation) {
	for i, s := range r.seen {
		all[i] = pressure.Observation{State: s.state, Available: r.available[i], Capacity: s.capacity}
		if s.state != pressure.Known {
			all[i].Err = errors.New(s.reason)
		}
	}
	return all
}

// course is a pod over time.
type course struct {
	points  []point
	ends    time.Time     // it is not listed any more; the zero time while it is
	asked   time.Time     // when the API server took its eviction; the zero time where it did not
	near    time.Duration // of that request
	instead string        // the UID of the victim whose replacement it is; "" where it is none
}

// Request is one of a decision, with the decision's time and signal.
type Request struct {
	Time   time.Time
	Signal pressure.Signal
	history.Request
}

// near is how far apart the same request may be in a record, which has a line a second, and in its replay: for a disk
// more, as the record does not have how old the kubelet's figures were, for whose renewal evictd waits.
func (r *Request) near() time.Duration {
	if r.Signal.OnDisk() {
		return decide.RenewedWithin
	}
	return 3 * time.Second
}

// point is a pod as it was from a time on. Its facts are shared by the points between which they do not change.
type point struct {
	at   time.Time
	is   *nodepods.Pod
	uses *usage.Pod
	disk pressure.Amounts
}

// pod returns what a document says of it.
func (p *point) pod() *status.Pod { return &status.Pod{Pod: *p.is, Usage: p.uses, Disk: p.disk} }

// ReadRecording reads what a record says of the time since then.
func ReadRecording(r *history.Record, since time.Time) (*Recording, error) {
	n := &Recording{pods: map[string]*course{}}
	var s history.State
	err := r.Each(since, func(l *history.Line) error {
		if l.Log != nil {
			n.log(l)
			return nil
		}
		if err := s.Take(l); err != nil || s.Node == nil || l.Lost > 0 {
			return err
		}
		if last := len(n.readings) - 1; last >= 0 && s.Node.Time.Before(n.readings[last].at) {
			return nil // the node's clock was set back
		}
		n.read(s.Node)
		if !bytes.Contains(l.Change, []byte(`"pods":null`)) { // which says nothing of them
			n.takePods(s.Node.Time, s.Node.Pods)
		}
		return nil
	})
	if err == nil && len(n.readings) == 0 {
		err = errors.New("the record has nothing of that time; name an earlier --since")
	}
	slices.SortStableFunc(n.requests, func(a, b Request) int { return a.Time.Compare(b.Time) })
	n.pair()
	return n, err
}

// pair notes which pods are victims, and which are their replacements: the next of the owner that has none yet.
func (n *Recording) pair() {
	for i := range n.requests {
		q := &n.requests[i]
		victim := n.pods[q.UID]
		if victim == nil || !victim.asked.IsZero() || !q.Outcome.Accepted() || q.Outcome.Simulated() {
			continue
		}
		victim.asked, victim.near = q.Time, q.near()
		if next := n.next(victim); next != nil {
			next.instead = q.UID
		}
	}
}

// next returns the replacement of a victim; nil where the record has none.
func (n *Recording) next(victim *course) (next *course) {
	for _, c := range n.pods {
		begins := c.points[0].at
		if c.instead != "" || c.owner() == "" || c.owner() != victim.owner() || !begins.After(victim.asked) {
			continue
		}
		if next == nil || begins.Before(next.points[0].at) {
			next = c
		}
	}
	return next
}

func (c *course) owner() string { return c.points[0].is.OwnerUID }

// log takes a line of the log.
func (n *Recording) log(l *history.Line) {
	var said struct {
		Msg      string            `json:"msg"`
		At       time.Time         `json:"ts"`
		Time     time.Time         `json:"time"`
		Signal   pressure.Signal   `json:"signal"`
		Attempts []history.Request `json:"attempts"`
		Victim   string            `json:"victim"`
		UID      string            `json:"uid"`
		Accepted time.Time         `json:"accepted"`
	}
	_ = json.Unmarshal(l.Log, &said) // a message that is another's has other keys
	for _, a := range said.Attempts {
		n.requests = append(n.requests, Request{said.Time, said.Signal, a})
	}
	switch said.Msg {
	case history.MsgGone: // whose decision is lost where evictd was killed within a second
		if !slices.ContainsFunc(n.requests, func(q Request) bool { return q.UID == said.UID }) {
			n.requests = append(n.requests, Request{said.Accepted, said.Signal, history.Request{Pod: said.Victim, UID: said.UID, Outcome: evict.Evicted}})
		}
	case "configuration applied":
		n.applied = said.At
	case "started":
		n.starts = append(n.starts, l.Time)
	case "no state of a container before: the start is a careful one":
		n.careful = n.careful || len(n.readings) == 0
	case history.MsgKilled:
		n.kills = append(n.kills, l.Time)
	}
}

// read takes a document.
func (n *Recording) read(d *status.Document) {
	now := reading{at: d.Time, circumstances: &circumstances{acts: d.Enforcement, config: d.Configuration, unknown: d.PodsUnknown, measured: d.DiskMeasured}}
	for i := range now.seen {
		now.seen[i] = seen{state: pressure.Absent, reason: "the record does not have it"}
	}
	for _, s := range d.Signals {
		now.seen[s.Name], now.available[s.Name] = reads(&s, d.InFlight)
	}
	last := len(n.readings) - 1
	if last < 0 {
		n.inFlight, n.readings = d.InFlight, append(n.readings, now)
		return
	}
	before := &n.readings[last]
	if now.at.Before(n.applied) || reflect.DeepEqual(before.config, now.config) {
		now.config = before.config
	} else {
		n.reconfigure(now.config)
	}
	if *before.circumstances == *now.circumstances {
		now.circumstances = before.circumstances
	}
	if before.at.Equal(now.at) { // the beginning of a frame repeats it
		n.readings = n.readings[:last]
	}
	n.readings = append(n.readings, now)
}

// reconfigure gives the readings since a configuration was applied that one: the record has it at the beginning of the next
// frame.
func (n *Recording) reconfigure(c *config.EvictdConfiguration) {
	for i := range n.readings {
		if r := &n.readings[i]; !n.applied.IsZero() && !r.at.Before(n.applied) {
			r.circumstances = new(*r.circumstances)
			r.config = c
		}
	}
}

// reads returns a signal as it was read, and what was available: what would-be victims hold is not reclaimed.
func reads(s *status.Signal, inFlight []decide.Victim) (is seen, available int64) {
	switch {
	case s.State == pressure.Absent.String():
		return seen{state: pressure.Absent, reason: s.Reason}, 0
	case s.Available == nil:
		return seen{state: pressure.Unknown, reason: s.Reason}, 0
	}
	available = *s.Available
	for _, v := range inFlight {
		if v.Phase == decide.Gone && v.DryRun {
			available -= v.Expected.At(s.Name)
		}
	}
	return seen{state: pressure.Known, capacity: *s.Capacity}, available
}

// takePods takes the pods of a document.
func (n *Recording) takePods(at time.Time, pods []status.Pod) {
	listed := map[string]bool{}
	for _, pod := range pods {
		listed[pod.UID] = true
		c := n.pods[pod.UID]
		if c == nil {
			c = &course{}
			n.pods[pod.UID] = c
		}
		now := point{at: at, is: kept(&pod.Pod), uses: pod.Usage, disk: pod.Disk}
		if last := len(c.points) - 1; last >= 0 {
			before := c.points[last]
			if reflect.DeepEqual(before.is, now.is) {
				now.is = before.is
			}
			if now.is == before.is && reflect.DeepEqual(before.uses, now.uses) && before.disk == now.disk {
				continue
			}
			if before.at.Equal(at) { // the beginning of a frame has all figures
				c.points = c.points[:last]
			}
		}
		c.points = append(c.points, now)
	}
	for uid, c := range n.pods {
		if !listed[uid] && c.ends.IsZero() {
			c.ends = at
		}
	}
}

// kept returns what is needed of a pod that a document has. The record has no labels but those that matter: those of one
// owner are taken for the same.
func kept(p *nodepods.Pod) *nodepods.Pod {
	is := *p
	is.CgroupUID = p.UID
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(cmp.Or(p.OwnerUID, p.UID)))
	is.LabelsHash = hash.Sum64()
	return &is
}

// end is the time of the last line.
func (n *Recording) end() time.Time { return n.readings[len(n.readings)-1].at }

// index returns which reading is the last before a time.
func (n *Recording) index(now time.Time) int {
	at, found := slices.BinarySearchFunc(n.readings, now, func(r reading, t time.Time) int { return r.at.Compare(t) })
	if found {
		return at
	}
	return max(0, at-1)
}

// at returns the pod at a time, nil before it is there and after its end.
func (c *course) at(now time.Time) *status.Pod {
	i, found := slices.BinarySearchFunc(c.points, now, func(p point, t time.Time) int { return p.at.Compare(t) })
	if !found {
		i--
	}
	if i < 0 || !c.ends.IsZero() && !now.Before(c.ends) {
		return nil
	}
	p := c.points[i].pod()
	if p.Disk == (pressure.Amounts{}) && i+1 < len(c.points) { // it is measured once a decision needs it
		p.Disk = c.points[i+1].disk
	}
	return p
}

// last returns the pod as it was last before a time.
func (c *course) last(now time.Time) *status.Pod {
	for _, p := range slices.Backward(c.points) {
		if !p.at.After(now) {
			return p.pod()
		}
	}
	return c.points[0].pod()
}
