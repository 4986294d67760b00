package main

import (
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/node"
)

// The gauge follows the lines of both, and a result tells those of its own signal.
func TestLinesOfTheSignal(t *testing.T) {
	began := time.Now()
	d := disk{lines: diskLinesOf(1000 * mebibyte)}
	g := newGauge(began, &lines{Hard: 100, Soft: 200, Kubelet: 50}, &d)
	for i, r := range []reading{
		{kernel: 300, kubelets: 300, disk: 161 * mebibyte},
		{kernel: 90, kubelets: 300, disk: 155 * mebibyte},
		{kernel: 300, kubelets: 300, disk: 120 * mebibyte},
		{kernel: 300, kubelets: 300, disk: 170 * mebibyte},
	} {
		if err := g.see(r, began.Add(time.Duration(i+1)*time.Second), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	var r Result
	r.Memory, r.Disk, _ = g.told()
	for signal, want := range map[string][2]Line{
		node.NodeMemory: {{Below: 1, Depth: 10, First: 2, Last: 2}, {}},
		node.ImageSpace: {{Below: 2, Depth: 40 * mebibyte, First: 2, Last: 3}, {Below: 1, Depth: 30 * mebibyte, First: 3, Last: 3}},
	} {
		r.Signal = signal
		for i, which := range []int{hardLine, kubeletLine} {
			is := r.line(which)
			is.Name, is.Bytes = "", 0
			if is != want[i] {
				t.Errorf("%s, line %d: %+v, want %+v", signal, which, is, want[i])
			}
		}
	}
	if last, below := g.lastBelow(); !below || last != 3 {
		t.Errorf("below any line %v, last at %v, want at 3", below, last)
	}
	if older := (&Result{Signal: node.ImageSpace}).line(hardLine); older != (Line{}) {
		t.Errorf("a result without lines of the disk has %+v", older)
	}
}

// A run begins at the same distance in both arms, and what fills the disk to a share of it ends
// there.
func TestFillEndsAtItsShare(t *testing.T) {
	s := find(15)
	b := bench{disk: disk{lines: diskLinesOf(10000 * mebibyte)}}
	one, two, other := turn{bench: &b, scenario: s}, turn{bench: &b, scenario: s}, turn{bench: &b, scenario: s}
	one.draw(1)
	two.draw(1)
	other.draw(2)
	if one.above != two.above || one.above == other.above {
		t.Errorf("runs 1, 1 and 2 begin %d, %d and %d bytes above the line", one.above, two.above, other.above)
	}
	if left := b.disk.lines.Hard + one.above - one.fillTo(8); left != 800*mebibyte {
		t.Errorf("%d MiB are left, want 800", left>>20)
	}
}
