package usage

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/testing/cgrouptest"
	"github.com/evictd/evictd/pkg/pressure"
)

// Most of the scenarios of `make test-cgroup2`; huge pages need no pod and are in
// pkg/pressure. test/cgroup2 lists all of them by name.

// TestCgroup2MemoryOfPods: what pods take shows in each reading, by both definitions and on the node as within the pods'
// limit, and crosses the thresholds. Active page cache counts as used for the kubelet, and as available for the kernel
// and evictd's default. The kernel kills a pod at its own memory.max, and the node's memory is then reclaimed. Where kube
// and system reservations are not enforced there is no limit of the pods, and no such signal.
func TestCgroup2MemoryOfPods(t *testing.T) {
	const step, steps, file = 50, 4, 192          // MiB
	const line = int64(step*steps-step*3/2) * mib // crossed by the third step, and by the file
	limit := 600 * mib
	n := newNode2(t, limit)
	hogs, hog := n.pod(burstableUID)
	n.set(hogs, "memory.max", (step*steps+40)*mib)
	n.set(hogs, "memory.swap.max", 0)
	readers, reader := n.pod(staticUID)
	tree := mustOpen(t, cgroupMount, n.kubepods)
	before := map[pressure.MemoryDefinition]int64{}
	for _, definition := range []pressure.MemoryDefinition{pressure.Kernel, pressure.WorkingSet} {
		sample := n.sample(definition)
		before[definition] = sample.Of(pressure.MemoryAvailable).Available
	}
	check := func(what, uid string, anonymous, cached int64) {
		t.Helper()
		use := podOf(t, tree, uid)
		near(t, what+", the pod's anonymous memory", use.Anonymous, anonymous*mib, podSlack)
		near(t, what+", the pod's working set", use.WorkingSet, (anonymous+cached)*mib, 2*podSlack) // the kernel's memory for it, too
		for definition, available := range before {
			used, by := anonymous*mib, fmt.Sprintf("%s (%s), ", what, definition)
			if definition == pressure.WorkingSet {
				used += cached * mib
			}
			sample := n.sample(definition)
			pods := sample.Of(pressure.AllocatableMemoryAvailable)
			near(t, by+"memory.available fell by", available-sample.Of(pressure.MemoryAvailable).Available, used, nodeSlack)
			near(t, by+"the pods have", pods.Available, limit-used, 2*podSlack)
			if pods.Capacity != limit {
				t.Errorf("%s: the pods' capacity is %d, which is not memory.max, %d", by, pods.Capacity, limit)
			}
			judged(t, by+"the node", pressure.MemoryAvailable, available-line, sample, used > line)
			judged(t, by+"the pods", pressure.AllocatableMemoryAvailable, 600*mib-line, sample, limit-used < 600*mib-line)
		}
	}
	check("at first", burstableUID, 0, 0)
	for i := range int64(steps) {
		hog.Do("anonymous %d", step)
		check(fmt.Sprint("step ", i), burstableUID, (i+1)*step, 0)
	}
	hog.Send("anonymous %d", 2*step)
	if err := hog.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("beyond its memory.max the hog ends with %v, not by the kernel", err)
	}
	if kills := n.figure(hogs, "memory.events", "oom_kill "); kills != 1 {
		t.Errorf("memory.events counts %d kills", kills)
	}
	check("after its end", burstableUID, 0, 0)
	stalled, path := n.stalled(""), filepath.Join(disk(t), "file")
	reader.Do("cache %d %s", file, path) // which reads it once
	again, err := os.Open(path)
	must(t, err)
	defer again.Close()
	_, err = io.Copy(io.Discard, again)
	must(t, err)
	if waited := n.stalled("") - stalled; waited > 20*time.Millisecond {
		t.Errorf("the node stalled for %v", waited)
	}
	near(t, "active page cache", n.figure(readers, "memory.stat", "\nactive_file "), file*mib, podSlack)
	check("a file that is read twice", staticUID, 0, file)
	limit = 700 * mib
	n.set(n.kubepods, "memory.max", limit)
	check("a higher limit", staticUID, 0, file)
	must(t, os.WriteFile(filepath.Join(cgroupMount, n.kubepods, "memory.max"), []byte("max"), 0o644))
	sample := n.sampleAny(pressure.Kernel)
	if seen := sample.Of(pressure.AllocatableMemoryAvailable); seen.State != pressure.Absent || seen.Err == nil {
		t.Errorf("without a limit the signal is %+v", seen)
	}
}

// woken is an event of a waker, or its end.
type woken struct {
	source pressure.WakeSource
	at     time.Time
	ended  error
}

// wakeEvents receives the events of a waker. Its buffer holds an event a window of each
// waker for a whole test, so that no waker waits for the test.
type wakeEvents chan woken

func (e wakeEvents) Woken(source pressure.WakeSource) { e <- woken{source, time.Now(), nil} }

func (e wakeEvents) Wakeups(state pressure.WakeState) {
	e <- woken{state.Source, time.Now(), state.Err}
}

// wakers opens and runs evictd's own wakers until the test ends. Both must be available.
func (n *realNode) wakers() (*pressure.Wakers, <-chan woken) {
	n.Helper()
	w := pressure.OpenWakers("", n.kubepods)
	paths := map[pressure.WakeSource]string{}
	for _, state := range w.States() {
		n.Logf("waker %s: %s, window %v", state.Source, state.Path, state.Window)
		paths[state.Source] = state.Path
		if state.Err != nil {
			n.Errorf("waker %s: %v", state.Source, state.Err)
		}
	}
	if got, want := paths[pressure.WakeKubepods], filepath.Join(cgroupMount, n.kubepods, "memory.pressure"); got != want {
		n.Errorf("the pods' waker is on %q; want %q", got, want)
	}
	events := make(wakeEvents, 1000)
	ctx, cancel := context.WithCancel(n.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, events) }()
	n.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			n.Errorf("the wakers: %v", err)
		}
	})
	return w, events
}

// wakeTime is how long the kernel may take for a wake-up; it is expected to be much faster.
const wakeTime = 2 * time.Minute

// wake makes a pod thrash until each of the sources has woken evictd.
func wake(t *testing.T, pod *cgrouptest.Process, events <-chan woken, sources ...pressure.WakeSource) {
	t.Helper()
	missing := map[pressure.WakeSource]bool{}
	for _, source := range sources {
		missing[source] = true
	}
	file, began := filepath.Join(disk(t), "file"), time.Now()
	for len(missing) > 0 {
		if time.Since(began) > wakeTime {
			t.Fatalf("no wake-up from %v in %v", missing, wakeTime)
		}
		pod.Do("cache %d %s", thrashFile, file)
		for waiting := len(events); waiting > 0; waiting-- {
			event := <-events
			if event.ended != nil {
				t.Fatalf("waker %s has ended: %v", event.source, event.ended)
			}
			if missing[event.source] {
				t.Logf("waker %s woke %v after the pod began", event.source, event.at.Sub(began).Round(time.Millisecond))
				delete(missing, event.source)
			}
		}
	}
}

// TestCgroup2PodThrashesAloneInItsMemoryMax: the pod's stall wakes evictd, which nothing did before, and shows in
// the node's figure, although the node is not short of memory. The pod's own file shows that all of the stall is its
// own.
func TestCgroup2PodThrashesAloneInItsMemoryMax(t *testing.T) {
	const enough = 400 * time.Millisecond
	n := newNode2(t, 400*mib)
	thrashing, p := n.pod(burstableUID)
	n.set(thrashing, "memory.max", thrashLimit)
	calm, other := n.pod(staticUID)
	other.Do("anonymous 32")
	before := n.sample(pressure.Kernel)
	w, events := n.wakers()
	wait := time.NewTimer(2 * time.Second) // two windows
	defer wait.Stop()
	for quiet := true; quiet; {
		select {
		case event := <-events: // another process may have stalled the node
			if event.source == pressure.WakeKubepods || event.ended != nil {
				t.Errorf("without a stall of the pods: %+v; they stalled for %v", event, n.stalled(n.kubepods))
			}
		case <-wait.C:
			quiet = false
		}
	}
	tree := mustOpen(t, cgroupMount, n.kubepods)
	first := stallsOf(t, tree)
	groups := map[string]string{"node": "", "kubepods": n.kubepods, "pod": thrashing, "neighbour": calm}
	stalled, began := map[string]time.Duration{}, time.Now()
	for name, group := range groups {
		stalled[name] = -n.stalled(group)
	}
	wake(t, p, events, pressure.WakeNode, pressure.WakeKubepods)
	if len(w.Wake()) == 0 {
		t.Error("nothing is in the channel that wakes the loop")
	}
	for file := filepath.Join(disk(t), "file"); n.stalled(thrashing)+stalled["pod"] < enough; {
		p.Do("cache %d %s", thrashFile, file)
		if time.Since(began) > wakeTime {
			t.Fatalf("the pod does not thrash: stalled for %v", n.stalled(thrashing)+stalled["pod"])
		}
	}
	sample := n.sample(pressure.Kernel)
	for name, group := range groups {
		stalled[name] += n.stalled(group)
	}
	t.Logf("stalled in %v: %v", time.Since(began).Round(time.Millisecond), stalled)
	// The kernel adds up a group and its parents at different moments. The node's figure may
	// be much smaller than the pod's, because it is divided among all busy CPUs. Its waker
	// has shown that there is one.
	own := stalled["pod"]
	if stalled["node"] > own*5/4 {
		t.Errorf("the pod stalled for %v and the node for %v: another process stalls", own, stalled["node"])
	}
	if stalled["kubepods"] < own*3/4 || stalled["kubepods"] > own*5/4 {
		t.Errorf("the pod stalled for %v and all pods together for %v", own, stalled["kubepods"])
	}
	if stalled["neighbour"] > own/20 {
		t.Errorf("the neighbour stalled for %v", stalled["neighbour"])
	}
	last := stallsOf(t, tree)
	bound, neighbour := grown(first, last, burstableUID), grown(first, last, staticUID)
	t.Logf("what evictd tells them apart by: %+v and %+v", bound, neighbour)
	if bound.LimitHits == 0 || bound.Waited < enough.Microseconds()*3/4 {
		t.Errorf("the pod that thrashes within its limit: %+v", bound)
	}
	if neighbour.LimitHits != 0 || neighbour.Waited > enough.Microseconds()/20 {
		t.Errorf("its neighbour: %+v", neighbour)
	}
	judged(t, "the node", pressure.MemoryAvailable, before.Of(pressure.MemoryAvailable).Available-thrashLimit, sample, false)
	judged(t, "the pods", pressure.AllocatableMemoryAvailable, 200*mib, sample, false)
	use := podOf(t, tree, burstableUID)
	t.Logf("the pod's working set: %d MiB of its %d MiB, anonymous: %d MiB", use.WorkingSet/mib, thrashLimit/mib, use.Anonymous/mib)
	if use.WorkingSet > thrashLimit || use.Anonymous > podSlack {
		t.Errorf("the pod's use is %+v", use)
	}
}

// stallsOf reads the pods' stalls, by UID.
func stallsOf(t *testing.T, tree *Tree) map[string]Stall {
	t.Helper()
	stalls, err := tree.Stalls()
	must(t, err)
	byUID := map[string]Stall{}
	for _, s := range stalls {
		if !s.WaitedKnown {
			t.Fatalf("how long %s waited is not known", s.UID)
		}
		byUID[s.UID] = s
	}
	return byUID
}

func grown(first, last map[string]Stall, uid string) Stall {
	return Stall{UID: uid, Waited: last[uid].Waited - first[uid].Waited, LimitHits: last[uid].LimitHits - first[uid].LimitHits}
}
