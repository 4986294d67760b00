package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// rehearseEvery is how often a calm node's pods are measured and ranked for nothing.
const rehearseEvery = 30 * time.Second

// rehearse goes the way of a decision up to the ranking and throws the result away.
// Otherwise the first decision of a process, which may come after a month, would open
// three files for each pod and run code that is not in memory, just when the node has
// none left; and that the pods cannot be read would be noticed only then.
func (a *Agent) rehearse(now time.Time) {
	if !a.rehearsed.IsZero() && now.Sub(a.rehearsed) < rehearseEvery || !a.options.Pods.Synced() {
		return
	}
	a.rehearsed = now
	pods := a.options.Pods.List()
	a.endings.note(pods, now)
	const signal = pressure.MemoryAvailable
	uses, hold, _ := a.measureCgroups(signal, pods, now)
	if hold != decide.HoldNone {
		return // it was reported
	}
	a.noteUnlisted(pods, uses, now)
	rank.Order(rank.Memory, factsOf(signal, pods, uses, a.options.Self), a.policy.Rules)
}
