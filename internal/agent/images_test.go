package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// fakeImages says what images hold that no pod uses.
type fakeImages struct {
	unused measure.UnusedImages
	err    error
	slow   time.Duration
	asked  int
}

func (f *fakeImages) Unused(context.Context, []*nodepods.Pod) (measure.UnusedImages, error) {
	f.asked++
	time.Sleep(f.slow) // a directory that does not answer hears of no context
	return f.unused, f.err
}

// imageNode is a disk of 1000 of which evictd wants 160 and the kubelet 150 (nodefs: 100),
// with a pod that holds 90 and one that holds 15.
type imageNode struct {
	signal    pressure.Signal
	available func(time.Duration) int64
	images    fakeImages
	reclaim   *measure.ImageReclaim // nil: as above
	split     bool                  // the kubelet says that layers and images are apart
}

// watch runs an agent on it and returns when a pod was first evicted, 0 for never, and the
// decision.
func (i *imageNode) watch(t *testing.T, during time.Duration) (*spaceNode, time.Duration, *decide.Decision) {
	t.Helper()
	n := &spaceNode{signal: i.signal, available: i.available}
	reclaim := measure.ImageReclaim{
		NodeFS: pressure.Fraction(0.10), ImageFS: pressure.Fraction(0.15), Collection: pressure.Fraction(0.16),
	}
	if i.reclaim != nil {
		reclaim = *i.reclaim
	}
	acted := shortBeside(t, n, &i.images, during, func(p *Policy) {
		for uid, use := range n.measured {
			use.SplitLayers = i.split
			n.measured[uid] = use
		}
		p.Thresholds[0].Quantity, p.ImageReclaim = pressure.Absolute(160), reclaim
	})
	if len(acted) == 0 {
		return n, 0, nil
	}
	first := slices.IndexFunc(n.decisions, func(d decide.Decision) bool { return d.Verb == decide.Acted })
	return n, acted[0], &n.decisions[first]
}

func TestFaultImagesGoBeforePods(t *testing.T) {
	t.Parallel()
	const (
		met = 10 * time.Second // below evictd's line
		low = 30 * time.Second // below the kubelet's
	)
	most := fakeImages{unused: measure.UnusedImages{Bytes: 100}}
	onNodeFS := fakeImages{unused: measure.UnusedImages{Bytes: 100, OnNodeFS: true}}
	short := steps(map[time.Duration]int64{0: 200, met: 155})
	low140 := steps(map[time.Duration]int64{0: 200, met: 155, low: 140})
	for name, test := range map[string]struct {
		node imageNode
		want time.Duration // when a pod is evicted; 0: none within ten minutes
		note string        // of the decision that evicts it
		held string        // of the last hold for images; "" for none
	}{
		"the kubelet collects them after five minutes": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: most,
				available: steps(map[time.Duration]int64{0: 200, met: 155, 5 * time.Minute: 400}),
			},
			held: "images that no pod uses hold 100, and 5 are missing: the kubelet removes them below 150, before it evicts pods",
		},
		"the kubelet removes them below its own line": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: most,
				available: steps(map[time.Duration]int64{0: 200, met: 155, low: 140, low + 20*time.Second: 400}),
			},
			held: "images that no pod uses hold 100, and 20 are missing",
		},
		"a pod fills it beside small images": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: fakeImages{unused: measure.UnusedImages{Bytes: 30}},
				available: steps(map[time.Duration]int64{0: 200, met: 90}),
			},
			want: met,
		},
		"images cover all that is missing, and it is a lot": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: fakeImages{unused: measure.UnusedImages{Bytes: 70}},
				available: steps(map[time.Duration]int64{0: 200, met: 90, low: 400}),
			},
			held: "images that no pod uses hold 70, and 70 are missing: the kubelet removes them below 150: waiting 1m0s at most for a rise",
		},
		"a minute below the kubelet's line without a rise": {
			node: imageNode{signal: pressure.ImageFSAvailable, images: most, available: low140},
			want: low + decide.ImagesWait,
			note: "images that no pod uses hold 100, and 20 are missing: availability has been below 150, where the kubelet removes them, for 1m0s, the last 1m0s without a rise",
			held: "images that no pod uses hold 100",
		},
		"it rises below the kubelet's line": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: most,
				available: steps(map[time.Duration]int64{0: 200, met: 155, low: 140, low + 50*time.Second: 145}),
			},
			want: low + 50*time.Second + decide.ImagesWait,
			note: "for 1m50s, the last 1m0s without a rise",
			held: "images that no pod uses hold 100",
		},
		"it rises and falls for ever": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: most,
				available: func(since time.Duration) int64 {
					if since < low {
						return short(since)
					}
					return 120 + int64(since/time.Second)%20
				},
			},
			want: low + decide.ImagesBound*decide.ImagesWait,
			note: "for 5m0s, the last 0s without a rise",
			held: "images that no pod uses hold 100",
		},
		"the disk would be full": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: fakeImages{unused: measure.UnusedImages{Bytes: 1000}},
				available: sloped(low, 30*time.Second, 155, 1),
			},
			want: low + time.Second + decide.ImagesLook, // a second until it is below the line
			note: "the last 15s without a rise",
			held: "images that no pod uses hold 1000",
		},
		"nodefs, on one device with images": {
			node: imageNode{signal: pressure.NodeFSAvailable, images: onNodeFS, available: low140},
			want: low + decide.ImagesWait, // the higher of the kubelet's two lines counts
			note: "below 150",
			held: "images that no pod uses hold 100",
		},
		"nodefs, images have a device of their own": {
			node: imageNode{signal: pressure.NodeFSAvailable, images: most, available: short},
			want: met,
		},
		"images are elsewhere than what is read as imagefs": {
			node: imageNode{signal: pressure.ImageFSAvailable, images: onNodeFS, available: short, split: true},
			want: met,
		},
		"inodes": {
			node: imageNode{signal: pressure.ImageFSInodesFree, images: most, available: short},
			want: met,
		},
		"what cannot be had holds nothing back": {
			node: imageNode{signal: pressure.ImageFSAvailable, images: fakeImages{err: errPlanted()}, available: short},
			want: met,
			note: "what images hold that no pod uses is not known, and no pod waits for it: planted",
		},
		"nor what never comes": {
			node: imageNode{signal: pressure.ImageFSAvailable, images: fakeImages{slow: time.Hour}, available: short},
			want: met + decide.ImagesTimeout,
			note: "what images hold that no pod uses is not known, and no pod waits for it: there was no answer within 5s",
		},
		"a kubelet without a line collects them": {
			node: imageNode{
				signal: pressure.ImageFSAvailable, images: most, available: short,
				reclaim: &measure.ImageReclaim{Collection: pressure.Fraction(0.16)},
			},
			want: met + decide.ImagesCollection,
			note: "availability has been below 159",
			held: "images that no pod uses hold 100",
		},
		"a kubelet that removes none": {
			node: imageNode{signal: pressure.ImageFSAvailable, images: most, available: short, reclaim: &measure.ImageReclaim{}},
			want: met,
			note: "images that no pod uses hold 100, and 5 are missing: the kubelet is not configured to remove images",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, evicted, d := test.node.watch(t, 10*time.Minute)
				if late := evicted - test.want; late < 0 || late > 1100*time.Millisecond {
					t.Errorf("a pod was evicted after %v, want %v; holds %v", evicted, test.want, n.holds())
				}
				if note := strings.Join(notesOf(d), "; "); test.note == "" && note != "" || !strings.Contains(note, test.note) {
					t.Errorf("notes %q, want %q", note, test.note)
				}
				if held := n.heldForImages(); !strings.HasPrefix(held, test.held) || test.held == "" && held != "" {
					t.Errorf("held %q, want %q", held, test.held)
				}
				time.Sleep(time.Hour) // the caller does not answer again
			})
		})
	}
}

func notesOf(d *decide.Decision) []string {
	if d == nil {
		return nil
	}
	return d.Notes
}

// heldForImages returns the detail of the last decision that waited for images.
func (n *fakeNode) heldForImages() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := ""
	for i := range n.decisions {
		if n.decisions[i].Hold == decide.HoldImagesFirst {
			held = n.decisions[i].Detail
		}
	}
	return held
}

// TestTheFirstCountOfImagesIsWaitedFor: the first count is waited for, so that the first decision knows about the images. A count that does not arrive holds
// nothing.
func TestTheFirstCountOfImagesIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		slow time.Duration
		want time.Duration // when a pod is evicted; 0: none
	}{
		"it comes":       {3 * time.Second, 0},
		"it comes never": {time.Hour, decide.ImagesTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &spaceNode{signal: pressure.ImageFSAvailable, available: steps(map[time.Duration]int64{0: 155})}
				images := &fakeImages{unused: measure.UnusedImages{Bytes: 100}, slow: test.slow}
				acted := shortBeside(t, n, images, time.Minute, func(p *Policy) {
					p.Thresholds[0].Quantity = pressure.Absolute(160)
					p.ImageReclaim = measure.ImageReclaim{ImageFS: pressure.Fraction(0.15)}
				})
				evicted := time.Duration(0)
				if len(acted) > 0 {
					evicted = acted[0]
				}
				if late := evicted - test.want; late < 0 || late > time.Second {
					t.Errorf("a pod was evicted after %v, want %v", evicted, test.want)
				}
				// The Event, which is written once, contains the figures.
				first := slices.IndexFunc(n.decisions, func(d decide.Decision) bool { return d.Hold == decide.HoldImagesFirst })
				if came := test.want == 0; came != (first >= 0) || came && !strings.Contains(n.decisions[first].Detail, "hold 100") {
					t.Errorf("holds %v, the first for images is %d", n.holds(), first)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// The node is read while its disk is short alone, and once a minute at most.
func TestImagesAreCountedUnderPressureAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := imageNode{
			signal: pressure.ImageFSAvailable, images: fakeImages{unused: measure.UnusedImages{Bytes: 100}},
			available: steps(map[time.Duration]int64{0: 200, 5 * time.Minute: 155, 5*time.Minute + 150*time.Second: 200}),
		}
		_, _, _ = node.watch(t, 15*time.Minute)
		if asked := node.images.asked; asked != 3 {
			t.Errorf("asked %d times in two and a half minutes of pressure, want 3", asked)
		}
	})
}

// TestFaultImagesThatStayAreWaitedForAgain: a disk whose use moves around the hard threshold is one
// incident: images that are not removed are waited for once.
func TestFaultImagesThatStayAreWaitedForAgain(t *testing.T) {
	t.Parallel()
	for name, hard := range map[string]bool{"soft alone": false, "soft and hard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &spaceNode{signal: pressure.ImageFSAvailable, available: func(since time.Duration) int64 {
					if int(since/(20*time.Second))%2 == 0 {
						return 125
					}
					return 110
				}}
				images := &fakeImages{unused: measure.UnusedImages{Bytes: 100}}
				acted := shortBeside(t, n, images, 30*time.Minute, func(p *Policy) {
					soft := p.Thresholds[0]
					soft.Hard, soft.Quantity = false, pressure.Absolute(160)
					p.Thresholds[0].Quantity = pressure.Absolute(120)
					p.Thresholds = append(p.Thresholds, soft)
					if !hard {
						p.Thresholds = p.Thresholds[1:]
					}
					p.ImageReclaim = measure.ImageReclaim{NodeFS: pressure.Fraction(0.10), ImageFS: pressure.Fraction(0.15)}
				})
				if len(acted) == 0 {
					t.Error("no pod in 30 minutes")
				}
			})
		})
	}
}

// A disk that is full falls no further.
func TestFullDiskWaitsForNoImages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &spaceNode{signal: pressure.ImageFSAvailable, available: steps(map[time.Duration]int64{0: 0})}
		images := &fakeImages{unused: measure.UnusedImages{Bytes: 500}}
		acted := shortBeside(t, n, images, 10*time.Minute, func(p *Policy) {
			p.ImageReclaim = measure.ImageReclaim{NodeFS: pressure.Fraction(0.10), ImageFS: pressure.Fraction(0.15)}
		})
		if len(acted) == 0 || acted[0] > decide.ImagesLook+time.Second {
			t.Errorf("a pod is evicted after %v on a full disk", acted)
		}
	})
}
