package usage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/filetree"
	"github.com/evictd/evictd/internal/testing/filetreetest"
)

// podsWithFiles makes pods without containers that have one file in an emptyDir.
func (h *fakeHost) podsWithFiles(names ...string) (pods []NodePod) {
	for _, name := range names {
		h.file("/var/lib/kubelet/pods/uid-" + name + "/volumes/kubernetes.io~empty-dir/cache/a")
		pods = append(pods, NodePod{UID: "uid-" + name, Namespace: "shop", Name: name})
	}
	return pods
}

// isEmptyDirOf reports whether a directory is an emptyDir of that pod.
func isEmptyDirOf(path, name string) bool { return strings.HasPrefix(path, "uid-"+name+"/") }

// inTenSeconds measures within the time limit of a measurement, as that round.
func inTenSeconds(t *testing.T, d *NodeDisk, round int, pods []NodePod) (map[string]DiskUse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return d.Measure(ctx, measuredAt().Add(time.Duration(round)*2*time.Minute), pods)
}

// known returns the names of the pods that are completely known.
func known(pods []NodePod, uses map[string]DiskUse) string {
	var names []string
	for _, pod := range pods {
		if use := uses[pod.UID]; use.NodeFS.Sum().BytesKnown && use.NodeFS.Sum().Bytes >= kib32 {
			names = append(names, pod.Name)
		}
	}
	return strings.Join(names, " ")
}

// TestNodeDiskOrder: unreached places are read first, then the pods that used most, and last
// those that take too long: a tree that would use all the time leaves some to all others, from the first measurement
// on, and stays a lower bound itself. The order of the pods in the call does not matter.
func TestNodeDiskOrder(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	pods := h.podsWithFiles("b", "a", "large", "slow")
	h.file("/var/lib/kubelet/pods/uid-large/volumes/kubernetes.io~empty-dir/cache/more")
	late := h.podsWithFiles("new")
	synctest.Test(t, func(t *testing.T) {
		d := h.open(t, 1)
		for round, step := range []struct {
			pods []NodePod
			slow string // takes too long
			last string // the time ends with it
			want string
		}{
			{pods, "slow", "", "a b large slow"},
			{pods, "slow", "", "large a b slow"},
			{append(late, pods...), "a", "", "new large a b slow"},
			{append(pods, late...), "", "", "large b new slow a"},
			{pods, "", "", "large a b slow"},
			{pods, "", "a", "large a"},
			{pods, "", "", "b slow large a"},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			var opened []string
			d.opening = func(m *podDisk, path string) {
				name, _, found := strings.Cut(strings.TrimPrefix(path, "uid-"), "/")
				if !found {
					return
				}
				opened = append(opened, name)
				switch name {
				case step.slow:
					<-m.turn.Context().Done()
				case step.last:
					cancel()
				}
			}
			uses, err := d.Measure(ctx, measuredAt().Add(time.Duration(round)*2*time.Minute), step.pods)
			cancel()
			if got := strings.Join(opened, " "); err != nil || got != step.want {
				t.Errorf("round %d: walked in the order %s, %v, want %s", round, got, err, step.want)
			}
			got := strings.Fields(known(step.pods, uses))
			want := slices.DeleteFunc(strings.Fields(step.want), func(name string) bool { return name == step.slow || name == step.last })
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || step.slow != "" && !strings.Contains(uses["uid-"+step.slow].Reason, "deadline exceeded") {
				t.Errorf("round %d: known are %q, want %q; %+v", round, got, want, uses)
			}
		}
	})
}

// TestNodeDiskStandsIn: a pod that there was no time for has its previous figures for a minute, with their time, where
// these are whole and not smaller than the new ones.
func TestNodeDiskStandsIn(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	pods := h.podsWithFiles("b", "slow")
	h.file("/var/log/pods/shop_slow_uid-slow/app/0.log")
	synctest.Test(t, func(t *testing.T) {
		at := func(seconds int) time.Time { return measuredAt().Add(time.Duration(seconds) * time.Second) }
		d := h.open(t, 1)
		slow := false
		d.opening = func(m *podDisk, path string) {
			if slow && path == "shop_slow_uid-slow" {
				<-m.turn.Context().Done()
			}
		}
		for i, step := range []struct {
			after, from int  // seconds; the figures are of that time
			slow, more  bool // it has more files than before
		}{
			{0, 0, false, false},
			{10, 10, false, false},
			{40, 10, true, false},
			{70, 10, true, false},
			{71, 71, true, false},
			{72, 72, true, false},
			{73, 73, false, false},
			{74, 74, true, true},
		} {
			slow = step.slow
			for file := 0; step.more && file < 4; file++ {
				h.file("/var/lib/kubelet/pods/uid-slow/volumes/kubernetes.io~empty-dir/cache/" + strconv.Itoa(file))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			uses, err := d.Measure(ctx, at(step.after), pods)
			cancel()
			use, whole := uses["uid-slow"], !step.slow || step.from != step.after
			if !use.Time.Equal(at(step.from)) || err != nil || use.NodeFS.Sum().BytesKnown != whole {
				t.Errorf("step %d: %+v, %v; want figures of %d s, whole: %t", i, use, err, step.from, whole)
			}
		}
	})
}

// TestNodeDiskIsNotHeldUp: a place whose filesystem does not respond is unknown. All others
// are known at once, even if several are late. The place is skipped until it responds, and
// then counted. The same holds for a layer.
func TestNodeDiskIsNotHeldUp(t *testing.T) {
	t.Parallel()
	for name, isDead := range map[string]func(path string) bool{
		"an emptyDir": func(path string) bool { return isEmptyDirOf(path, "web") && strings.HasSuffix(path, "/cache") },
		"a layer":     func(path string) bool { return path == "." },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFakeHost(t)
			h.pod()
			pods := append(h.podsWithFiles("b", "c", "late"), web())
			synctest.Test(t, func(t *testing.T) { notHeldUp(t, h, pods, isDead) })
		})
	}
}

func notHeldUp(t *testing.T, h *fakeHost, pods []NodePod, isDead func(path string) bool) {
	t.Helper()
	d := h.open(t, 1)
	answer := make(chan struct{})
	var late, asked atomic.Int32
	late.Store(1)
	d.opening = func(m *podDisk, path string) {
		switch {
		case isDead(path):
			asked.Add(1)
			<-answer
		case isEmptyDirOf(path, "late") && late.Add(-1) == 0:
			<-m.turn.Context().Done()
			time.Sleep(3 * time.Second) // of the fake clock
		}
	}
	for round := range 3 {
		uses, err := inTenSeconds(t, d, round, pods)
		must(t, err)
		if use := uses["uid-web"]; use.NodeFS.Sum().BytesKnown || !strings.Contains(use.Reason, "has not answered") {
			t.Errorf("round %d: the dead pod is %+v", round, use)
		}
		want := "b c late"
		if round == 0 {
			want = "b c"
		}
		if got := known(pods, uses); got != want {
			t.Errorf("round %d: known are %q, want %q; %+v", round, got, want, uses)
		}
		time.Sleep(10 * time.Second) // of the fake clock
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("the dead one was asked %d times, want once", got)
	}
	close(answer)
	synctest.Wait()
	uses, err := inTenSeconds(t, d, 3, pods)
	if got := known(pods, uses); err != nil || got != "b c late web" {
		t.Errorf("once it answers, known are %q, %v: %+v", got, err, uses)
	}
}

// TestNodeDiskLooksAtNoLayer before a worker reads it: its filesystem, here one whose server
// does not respond, may block the caller.
func TestNodeDiskLooksAtNoLayer(t *testing.T) {
	t.Parallel()
	h := newHostOfWeb(t)
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	defer device.Close() // ends the wait of the readers
	filetreetest.InMountNamespace(t, func() {
		options := "fd=" + strconv.Itoa(int(device.Fd())) + ",rootmode=40000,user_id=0,group_id=0"
		if err := unix.Mount("dead", h.at(snapshots+"/7"), "fuse", 0, options); err != nil {
			t.Error(err)
			return
		}
		d, err := OpenNodeDisk(h.inNamespace(t), 1) // a second: it is read, once
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if seen, err := d.look(ctx, []NodePod{web()}); err != nil || seen.mounts.byID[containerA].upperDir() != snapshots+"/7/fs" {
			t.Errorf("looking for the pods' files: %+v, %v; want the layer", seen, err)
		}
	})
}

// TestNodeDiskSearchIsHeld: while the search for the pods' files waits for the kubelet's
// directory, or has no time, nothing is known, and no second search is started.
func TestNodeDiskSearchIsHeld(t *testing.T) {
	t.Parallel()
	d := newHostOfWeb(t).open(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	uses, err := d.Measure(ctx, measuredAt(), []NodePod{web()})
	if !errors.Is(err, context.Canceled) && !errors.Is(err, filetree.ErrNotReached) { // by whichever sees it first
		t.Errorf("uses %+v, %v", uses, err)
	}
	hold(t, d.pool, lookName)
	if _, err := d.Measure(t.Context(), measuredAt(), nil); !errors.Is(err, filetree.ErrSilent) {
		t.Errorf("%v, want %v", err, filetree.ErrSilent)
	}
}

// hold has a worker wait in a task of that name until the end of the test.
func hold(t *testing.T, pool *filetree.Pool, name string) {
	t.Helper()
	answer, asked := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(answer) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	defer pool.Rest()
	err := pool.Do(ctx, name, func(*filetree.Turn) error {
		close(asked)
		<-answer
		return nil
	})
	if !errors.Is(err, filetree.ErrSilent) {
		t.Fatalf("%v; want it to wait", err)
	}
}

// TestNodeDiskLeavesTimeForAll: pods that would take all the time there is get half of what is left each, the
// last one the rest.
func TestNodeDiskLeavesTimeForAll(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	pods := h.podsWithFiles("a", "b", "c")
	synctest.Test(t, func(t *testing.T) {
		began, d := time.Now(), h.open(t, 1)
		var ended []time.Duration
		d.opening = func(m *podDisk, path string) {
			if strings.HasSuffix(path, "/cache") {
				<-m.turn.Context().Done()
				ended = append(ended, time.Since(began))
			}
		}
		_, err := inTenSeconds(t, d, 0, pods)
		if want := []time.Duration{5 * time.Second, 7500 * time.Millisecond, 10 * time.Second}; err != nil || !slices.Equal(ended, want) {
			t.Errorf("their time ends after %s, %v; want %s", ended, err, want)
		}
	})
}

// TestNodeDiskCores: next to no CPU does not suffice for ten thousand files. The clock of
// the sleeps is fake; the time that the machine takes to find the files is real, and may be
// too long as well.
func TestNodeDiskCores(t *testing.T) {
	t.Parallel()
	h := newFakeHost(t)
	pods := h.podsWithFiles("a-large", "b")
	dir := h.at("/var/lib/kubelet/pods/uid-a-large/volumes/kubernetes.io~empty-dir/cache/")
	for i := range 10_000 {
		must(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600))
	}
	for cores, want := range map[float64]bool{1: true, 1e-9: false} {
		synctest.Test(t, func(t *testing.T) {
			uses, err := inTenSeconds(t, h.open(t, cores), 0, pods)
			if got := known(pods, uses); strings.Contains(got, "a-large") != want || want && err != nil {
				t.Errorf("with %v cores known are %q, %v; want the large one known: %t", cores, got, err, want)
			}
		})
	}
}

// TestTurnOf: only a fault that more time would fix is distinguished from a complete count.
func TestTurnOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		end  error
		want turn
	}{
		{nil, whole},
		{filetree.ErrBounds, whole},
		{filetree.ErrSilent, tooLong},
		{context.DeadlineExceeded, tooLong},
		{errors.Join(filetree.ErrNotReached, context.Canceled), notReached},
	} {
		if got := turnOf(test.end); got != test.want {
			t.Errorf("%v: %d, want %d", test.end, got, test.want)
		}
	}
}
