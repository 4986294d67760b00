// Package pressure answers one question: is the node short of something?
//
// A [Node] reads the node's signals into a [Sample]; a [Judge] compares the sample
// with the thresholds and returns a [Verdict]; a [Pacer] says when the next sample
// is due:
//
//	node, err := pressure.Open(pressure.Options{Signals: []pressure.Signal{pressure.MemoryAvailable}})
//	…
//	sample := node.Sample(now)
//	verdict := judge.Judge(&sample)
//	for _, p := range verdict.Pressures {
//		fmt.Println(p.Threshold, "misses", p.Deficit())
//	}
//
// Signals are defined as the kubelet defines them, except that memory.available is
// by default the kernel's MemAvailable. A reading is one of three things: a number
// (Known), a signal that this node does not have (Absent), or a signal that it has
// and that could not be read (Unknown). Nothing that cannot be read becomes a
// number: a file that is missing, empty, cut off or full of something else makes
// its signals Unknown, with an error that says which file and what was wrong.
//
// [Wakers] are the kernel's own notice that tasks wait for memory: a reason to
// sample at once, and never a reading.
//
// Limits: where the images are is looked up once, at [Open]. A filesystem whose
// mount is dead costs one sample a tenth of a second and one goroutine until it
// answers. The package reads files of the node only: it knows no pod, asks no
// server, never looks at the clock and changes nothing but the triggers of its own
// wake-ups.
package pressure
