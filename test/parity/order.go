package parity

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func isMemory(signal pressure.Signal) bool {
	return signal.Kind() == pressure.MemoryKind && signal != pressure.MemoryStall
}

// kubelets returns the name of the kubelet's signal that a signal is read as.
func kubelets(signal pressure.Signal) string {
	theirs, _ := signal.Kubelets()
	return theirs.String()
}

// isKubelets reports whether the kubelet has a signal of that name.
func isKubelets(signal pressure.Signal) bool {
	theirs, has := signal.Kubelets()
	return has && theirs == signal
}

// resourceOf returns the kubelet's name for the resource of a signal.
func resourceOf(signal pressure.Signal) string {
	switch {
	case isMemory(signal):
		return "memory"
	case signal == pressure.PIDAvailable:
		return "pids"
	case signal.Unit() == pressure.Inodes:
		return "inodes"
	default:
		return "ephemeral-storage"
	}
}

// chosenFrom returns the pressures that the kubelet may have acted on, by the resource that
// it names, by the threshold and the reading in its message to the victim, and by the grace
// period. More than one is left only where two filesystems have equal readings.
func chosenFrom(held []pressure.Pressure, cycle *Cycle) []pressure.Pressure {
	line, available, told := quantities(cycle.Message)
	var chosen []pressure.Pressure
	for i := range held {
		p := &held[i]
		if resourceOf(p.Threshold.Signal) != cycle.Reclaims {
			continue
		}
		if told && (line != p.Line || available != p.Observed.Available || (cycle.Grace < ownGrace) != p.Threshold.Hard) {
			continue
		}
		chosen = append(chosen, *p)
	}
	return chosen
}

// quantities returns the threshold and the reading in the kubelet's message, rounded up to
// whole numbers.
func quantities(message string) (line, available int64, found bool) {
	_, message, _ = strings.Cut(message, "Threshold quantity: ")
	text, message, _ := strings.Cut(message, ", available: ")
	threshold, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, 0, false
	}
	text, _, _ = strings.Cut(message, ". ")
	reading, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, 0, false
	}
	return threshold.Value(), reading.Value(), true
}

// key determines a pod's position. Pods of the same key are a class, whose internal order
// the kubelet does not define.
type key struct {
	exceeds  bool
	priority int32
	over     int64
}

func (k key) compare(other key) int {
	switch {
	case k.exceeds != other.exceeds && k.exceeds:
		return -1
	case k.exceeds != other.exceeds:
		return 1
	}
	return cmp.Or(cmp.Compare(k.priority, other.priority), -cmp.Compare(k.over, other.over))
}

// place is a candidate and its key, in which the named rules are replaced by the kubelet's.
type place struct {
	name string
	key  key
}

// order compares the kubelet's order with evictd's for one signal.
func (c *comparison) order(signal pressure.Signal, cycle *Cycle) {
	ranking, known := c.orders[signal]
	if !known {
		ranking = c.node.order(signal)
		c.orders[signal] = ranking
	}
	if signal == pressure.MemoryAvailable || signal == pressure.AllocatableMemoryAvailable {
		c.measure(signal, &ranking)
	}
	pods := make(map[string]*Pod, len(c.state.Pods))
	for i := range c.state.Pods {
		pods[c.state.Pods[i].Name] = &c.state.Pods[i]
	}
	c.victim(cycle, pods)
	compared := c.candidates(signal, &ranking, pods)
	c.same(signal, c.places(signal, &ranking, compared), cycle, compared)
}

// measure records its difference where evictd's default measure of memory gives another
// order.
func (c *comparison) measure(signal pressure.Signal, ranking *rank.Ranking) {
	shipped := c.node.orderBy(signal, pressure.Kernel)
	same := slices.EqualFunc(ranking.Candidates, shipped.Candidates, func(a, b rank.Entry) bool { return a.Pod.UID == b.Pod.UID })
	if !same {
		c.name(MemoryMeasure)
	}
}

// victim checks that the kubelet evicted the first pod that it may. The comparison below is
// of its order, and this connects the victim to it.
func (c *comparison) victim(cycle *Cycle, pods map[string]*Pod) {
	for _, name := range cycle.Order {
		if !pods[name].critical() {
			if cycle.Victim != name {
				c.fault("the kubelet kills %q and %q is first in its order", cycle.Victim, name)
			}
			if !cycle.Seen {
				c.fault("evictd does not see that the kubelet has evicted %q", name)
			}
			return
		}
	}
	if cycle.Victim != "" {
		c.fault("the kubelet kills %q, which is critical or not there", cycle.Victim)
	}
}

// candidates checks that each pod that evictd protects has a valid reason, and returns the
// pods whose position is compared.
func (c *comparison) candidates(signal pressure.Signal, ranking *rank.Ranking, pods map[string]*Pod) map[string]*Pod {
	if total := len(ranking.Candidates) + len(ranking.Protected); total != len(pods) {
		c.fault("evictd ranks %d of %d pods", total, len(pods))
	}
	for i := range ranking.Protected {
		e := &ranking.Protected[i]
		p := pods[e.Pod.Name]
		reasons := c.state.reasons(p, signal)
		d, there := reasons[e.Protection]
		if !there {
			c.fault("evictd protects %s as %q, and it is not", p.Name, e.Protection)
		}
		if d != "" {
			c.name(d)
		}
	}
	compared := make(map[string]*Pod, len(ranking.Candidates))
	for i := range ranking.Candidates {
		p := pods[ranking.Candidates[i].Pod.Name]
		if reasons := c.state.reasons(p, signal); len(reasons) > 0 {
			c.fault("evictd takes %s for a candidate, and it is protected: %v", p.Name, reasons)
			continue
		}
		if p.fractional(signal) {
			c.name(FractionOfByte)
			continue
		}
		if amount, asks := p.asks(signal); asks && ranking.Candidates[i].Pod.Request != amount {
			c.fault("%s asks for %d by evictd, and for %d by the kubelet", p.Name, ranking.Candidates[i].Pod.Request, amount)
		}
		compared[p.Name] = p
	}
	return compared
}

// places returns the candidates in evictd's order.
func (c *comparison) places(signal pressure.Signal, ranking *rank.Ranking, compared map[string]*Pod) []place {
	places := make([]place, 0, len(compared))
	changes := map[Difference]bool{}
	for i := range ranking.Candidates {
		e := &ranking.Candidates[i]
		p := compared[e.Pod.Name]
		if p == nil {
			continue
		}
		at, used := place{p.Name, key{e.Exceeds, e.Pod.Priority, e.Over}}, e.Pod.Usage
		for d, change := range c.state.changes(p, signal) {
			changes[d] = true
			used += change.usage
			at.key.over += change.usage - change.request
			at.key.exceeds = used > e.Pod.Request
		}
		if signal == pressure.PIDAvailable {
			at.key.exceeds = false // not a step of the order for PIDs
		}
		places = append(places, at)
	}
	if len(changes) == 0 {
		return places
	}
	adjusted := slices.Clone(places)
	slices.SortStableFunc(adjusted, func(a, b place) int { return a.key.compare(b.key) })
	if !slices.Equal(places, adjusted) {
		for d := range changes {
			c.name(d)
		}
	}
	return adjusted
}

// same compares the two orders, position by position and as classes.
func (c *comparison) same(signal pressure.Signal, places []place, cycle *Cycle, compared map[string]*Pod) {
	keys := make(map[string]key, len(places))
	for _, p := range places {
		keys[p.name] = p.key
	}
	var kubelets []string
	for _, name := range cycle.Order {
		if compared[name] != nil {
			kubelets = append(kubelets, name)
		}
	}
	if len(kubelets) != len(places) {
		c.fault("%v: of %d candidates the kubelet ranks %d", signal, len(places), len(kubelets))
		return
	}
	for i, name := range kubelets {
		if name == places[i].name {
			continue
		}
		if keys[name] != places[i].key {
			c.fault("%v, place %d: evictd has %s %+v, the kubelet %s %+v",
				signal, i+1, places[i].name, places[i].key, name, keys[name])
			return
		}
		c.name(Ties)
	}
}
