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
// Signals are defined as the kubelet defines them, except that memory.available is by
// default the kernel's MemAvailable. A reading is a number (Known), a signal that this node
// does not have (Absent), or a signal that it has but that could not be read (Unknown). A
// file that is missing, empty, truncated or malformed never becomes a number: it makes its
// signals Unknown, with an error that names the file and the fault.
//
// [Wakers] are the kernel's own notification that tasks wait for memory: a reason to sample
// at once, and never a reading.
//
// Limits: the location of the images is looked up once, at [Open]. A filesystem whose mount
// is dead costs one sample Options.FilesystemWait, and one goroutine until it responds. The
// package only reads files of the node: it knows no pods, calls no server, never reads the
// clock and changes nothing but the triggers of its own wake-ups.
package pressure
