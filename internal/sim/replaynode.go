package sim

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// What evictd sees of the node of a replay, and the API server that answers it.

// sample implements [agent.Options.Sample].
func (r *replay) sample(now time.Time) pressure.Sample {
	time.Sleep(time.Microsecond) // no two samples are of one instant, as on no node
	r.mu.Lock()
	defer r.mu.Unlock()
	sample := pressure.Sample{Time: now, Observations: r.readings[r.index(now)].observations()}
	for uid, was := range r.all() {
		if _, leaves := r.asked[uid]; !leaves && was.asked.IsZero() && was.instead == "" && r.made[uid] == nil {
			continue // it is as recorded
		}
		is, held := r.is(uid, was, now), was.at(now)
		if r.made[uid] != nil {
			held = nil // it is not in the record
		}
		r.add(&sample, is, -1)
		r.add(&sample, held, 1)
	}
	o := &sample.Observations[pressure.MemoryAvailable]
	o.Available = max(0, o.Available)
	r.account(&sample)
	return sample
}

// all returns the pods of the record and the replacements. mu is held.
func (r *replay) all() map[string]*course {
	if len(r.made) == 0 {
		return r.pods
	}
	all := maps.Clone(r.pods)
	maps.Copy(all, r.made)
	return all
}

// add adds what a pod holds to what is available, so often; nil holds nothing.
func (r *replay) add(sample *pressure.Sample, p *status.Pod, times int64) {
	if p == nil {
		return
	}
	held := p.Disk
	if p.Usage != nil {
		held = held.Updated(measure.Expected(p.Usage, r.policy.MemoryAvailable).Without(pressure.MemoryStall))
	}
	for i := range sample.Observations {
		if o := &sample.Observations[i]; o.State == pressure.Known {
			o.Available += times * held.At(pressure.Signal(i))
		}
	}
}

// is returns a pod as it is on this node at a time; nil where it is not there. mu is held.
func (r *replay) is(uid string, was *course, now time.Time) *status.Pod {
	asked, leaves := r.asked[uid]
	p := was.at(now)
	switch victim := !was.asked.IsZero() && !now.Before(was.asked); {
	case leaves && was.together(asked): // as recorded
	case leaves && !now.Before(asked.Add(was.takes())):
		return nil
	case victim:
		p = was.goesOn(now)
	case p != nil && was.instead != "" && r.lives(was.instead, now):
		return nil
	}
	if leaves && p != nil {
		p.Terminating = true
	}
	return p
}

// goesOn returns a victim of the record as if it had not been evicted: its memory grows as it did in its last minute.
func (c *course) goesOn(now time.Time) *status.Pod {
	p := c.last(c.asked)
	p.Terminating = false
	if before := c.last(c.asked.Add(-growth)); p.Usage != nil && before.Usage != nil {
		u, times := *p.Usage, now.Sub(c.asked).Seconds()/growth.Seconds()
		more := max(0, int64(times*float64(u.Anonymous-before.Usage.Anonymous)))
		u.Anonymous, u.WorkingSet = u.Anonymous+more, u.WorkingSet+more
		p.Usage = &u
	}
	return p
}

// takes is how long a victim takes to end.
func (c *course) takes() time.Duration {
	if !c.asked.IsZero() && !c.ends.IsZero() {
		return c.ends.Sub(c.asked)
	}
	return stops
}

// lives reports whether a victim of the record goes on here. mu is held.
func (r *replay) lives(uid string, now time.Time) bool {
	asked, leaves := r.asked[uid]
	was := r.pods[uid]
	return !leaves || !was.together(asked) && now.Before(asked.Add(was.takes()))
}

// together reports whether a pod was evicted at the same time in the record.
func (c *course) together(asked time.Time) bool {
	return !c.asked.IsZero() && asked.Sub(c.asked).Abs() <= c.near
}

// account counts the time below a hard line. mu is held.
func (r *replay) account(sample *pressure.Sample) {
	below := slices.ContainsFunc(r.policy.Thresholds, func(t pressure.Threshold) bool { return short(sample, t) })
	if !r.below.IsZero() {
		r.replayed.Below += sample.Time.Sub(r.below)
	}
	if r.below = (time.Time{}); below {
		r.below = sample.Time
	}
	if r.replayed.Model.IsZero() {
		r.replayed.Model = r.differs(sample.Time)
	}
}

// differs returns when a pod was evicted that is not here.
func (r *replay) differs(now time.Time) time.Time {
	for uid, was := range r.pods {
		if _, leaves := r.asked[uid]; !was.asked.IsZero() && !leaves && now.Sub(was.asked) > was.near && was.asked.After(r.readings[0].at) {
			return was.asked
		}
	}
	return time.Time{}
}

// Synced implements [agent.Pods].
func (r *replay) Synced() bool { return true }

// Stale implements [agent.Pods].
func (r *replay) Stale() error {
	if why := r.readings[r.index(time.Now())].unknown; why != "" {
		return errors.New(why)
	}
	return nil
}

// List implements [agent.Pods].
func (r *replay) List() (listed []*nodepods.Pod) {
	r.each(func(p *status.Pod) { listed = append(listed, &p.Pod) })
	return listed
}

// each calls f with each pod that is there now.
func (r *replay) each(f func(p *status.Pod)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for uid, was := range r.all() {
		if p := r.is(uid, was, now); p != nil {
			f(p)
		}
	}
}

// Collect implements [measure.Cgroups].
func (r *replay) Collect(into []usage.Pod, _ usage.StandIn) ([]usage.Pod, error) {
	r.each(func(p *status.Pod) {
		if p.Usage != nil {
			u := *p.Usage
			u.UID = p.CgroupUID
			into = append(into, u)
		}
	})
	return into, nil
}

// Stalls implements [measure.Cgroups]. The record does not have them.
func (r *replay) Stalls() ([]usage.Stall, error) { return nil, nil }

// Present implements [measure.Cgroups].
func (r *replay) Present(uid string) (there bool, err error) {
	r.each(func(p *status.Pod) { there = there || p.UID == uid && p.Usage != nil })
	return there, nil
}

// Measure implements [measure.Disk]. It takes as long as in the record, where that was asked for then.
func (r *replay) Measure(ctx context.Context, _ []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	asked := time.Now()
	for i := r.index(asked); i < len(r.readings) && r.readings[i].at.Sub(asked) < decide.DiskTimeout; i++ {
		if asked.Sub(r.readings[i].measured) > time.Second {
			continue
		}
		select {
		case <-time.After(time.Until(r.readings[i].at)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		break
	}
	all := map[string]usage.DiskUse{}
	r.each(func(p *status.Pod) {
		use := usage.DiskUse{Time: asked}
		for part := usage.Logs; part <= usage.Deleted; part++ {
			use.NodeFS[part] = usage.FSUse{BytesKnown: true, InodesKnown: true}
			use.ImageFS[part] = use.NodeFS[part]
		}
		for signal, amount := range map[pressure.Signal]struct {
			is    *int64
			known *bool
		}{
			pressure.NodeFSAvailable:   {&use.NodeFS[usage.Layers].Bytes, &use.NodeFS[usage.Layers].BytesKnown},
			pressure.NodeFSInodesFree:  {&use.NodeFS[usage.Layers].Inodes, &use.NodeFS[usage.Layers].InodesKnown},
			pressure.ImageFSAvailable:  {&use.ImageFS[usage.Layers].Bytes, &use.ImageFS[usage.Layers].BytesKnown},
			pressure.ImageFSInodesFree: {&use.ImageFS[usage.Layers].Inodes, &use.ImageFS[usage.Layers].InodesKnown},
		} {
			*amount.is, *amount.known = p.Disk.Of(signal)
		}
		all[p.UID] = use
	})
	return all, nil
}

// Unused implements [measure.Disk]. The record does not have it.
func (r *replay) Unused(context.Context, []*nodepods.Pod) (measure.UnusedImages, error) {
	return measure.UnusedImages{}, nil
}

// Evict implements [execute.Evictor]: as the API server answered at that time, and where it was not asked it accepts.
func (r *replay) Evict(_ context.Context, q evict.Request) evict.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	result := r.answer(q, now)
	if was := r.all()[q.UID]; was == nil || r.is(q.UID, was, now) == nil {
		return evict.Result{Outcome: evict.Gone, Sent: now}
	} else if _, leaves := r.asked[q.UID]; result.Outcome.Accepted() && !q.DryRun && !leaves {
		r.asked[q.UID] = now
		if was.asked.IsZero() || was.asked.Sub(now) > was.near {
			if r.replayed.Model.IsZero() {
				r.replayed.Model = now
			}
			r.replace(q.UID, was, now)
		}
	}
	return result
}

// answer returns the recorded answer about a pod that is nearest in time; where it was taken, or there is none, the request
// is taken.
func (r *replay) answer(q evict.Request, now time.Time) evict.Result {
	result, nearest := evict.Result{Outcome: taken(q), Sent: now}, time.Duration(math.MaxInt64)
	for _, a := range r.requests {
		if by := a.Time.Sub(now).Abs(); a.UID == q.UID && by < nearest {
			nearest, result.Outcome, result.Message, result.Budget = by, a.Outcome, a.Message, a.Budget
		}
	}
	if result.Outcome.Accepted() {
		return evict.Result{Outcome: taken(q), Sent: now}
	}
	return result
}

// replace lets the next pod of a victim's owner start, which uses what a fresh one of that owner used in the record. mu is held.
func (r *replay) replace(uid string, was *course, now time.Time) {
	p := was.last(now)
	if p.OwnerUID == "" {
		return
	}
	like := was
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		if c := r.pods[uid]; c.owner() == p.OwnerUID && c.points[0].at.After(like.points[0].at) && c.points[0].at.After(r.readings[0].at) {
			like = c
		}
	}
	from := now.Add(was.takes() + starts)
	next := &course{ends: was.ends}
	for _, l := range like.points {
		is := *l.is
		is.UID, is.CgroupUID, is.Name, is.Created, is.Terminating = uid+"+", uid+"+", p.Name+"+", from, false
		l.at, l.is = l.at.Add(from.Sub(like.points[0].at)), &is
		next.points = append(next.points, l)
	}
	if next.ends.IsZero() || next.ends.After(from) {
		r.made[uid+"+"] = next
	}
}

// Look implements [execute.Evictor].
func (r *replay) Look(_ context.Context, q evict.Request) (outcome evict.Outcome, err error) {
	outcome = evict.Gone
	r.each(func(p *status.Pod) {
		switch {
		case p.UID != q.UID:
		case p.Terminating:
			outcome = q.Accepted()
		default:
			outcome = evict.Unconfirmed
		}
	})
	return outcome, nil
}

// Budget implements [execute.Evictor]. The record does not have it.
func (r *replay) Budget(context.Context, string, string) (evict.Budget, error) {
	return evict.Budget{}, errors.New("the record does not have the budget")
}

func (r *replay) oomKills() (kills int64, err error) {
	for _, at := range r.kills {
		if !at.After(time.Now()) {
			kills++
		}
	}
	return kills, nil
}
