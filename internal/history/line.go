// Package history is the record: what happened on a node, kept in files on its disk and read again.
//
// A file is JSON lines in zstd frames, so that zstdcat and jq read it. A frame begins with a whole document of
// the node, as /debug/status has it, and each line after it says what has changed, or is a line of the log: a
// frame that is cut or flipped is lost alone. docs/cli.md lists the fields.
//
// Writing never waits: lines go through a queue that drops and counts. The record decides nothing, and evictd never
// reads its own.
package history

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/pressure"
)

// Version is the format's. A record of a later one is refused.
const Version = 1

// Line is a line of a record. It has one of the fields behind Version.
type Line struct {
	// Time is when it was written, by the node's clock.
	Time time.Time `json:"time"`
	// Version is the format's, on a line with a Node; 0 on all others.
	Version int `json:"version,omitempty"`
	// Node is a whole [status.Document], without Ranking and Decisions.
	Node json.RawMessage `json:"node,omitempty"`
	// Change is a document with those of its pods alone that are new or have changed, use by more than 1 %; Gone are the
	// namespace/name of those that the node does not have any more. A document whose Pods are nil says nothing of them.
	Change json.RawMessage `json:"change,omitempty"`
	Gone   []string        `json:"gone,omitempty"`
	// Log is a line of the log.
	Log json.RawMessage `json:"log,omitempty"`
	// Lost is how many lines are missing before this one, because they came too fast or the disk was short.
	Lost int `json:"lost,omitempty"`
}

// change returns what of a document is to be said and which pods are gone, by the pods as the lines before say them, and
// those after it.
func change(said map[string]status.Pod, now *status.Document) (d status.Document, gone []string, known map[string]status.Pod) {
	d = *now
	if d.Pods == nil {
		return d, nil, said
	}
	known = make(map[string]status.Pod, len(d.Pods))
	d.Pods = []status.Pod{}
	for _, pod := range now.Pods {
		last, is := said[pod.Key()]
		if is = is && same(&last, &pod); !is {
			d.Pods, last = append(d.Pods, pod), pod
		}
		known[pod.Key()] = last // as it was said, so that small steps add up
	}
	for key := range said {
		if _, is := known[key]; !is {
			gone = append(gone, key)
		}
	}
	return d, gone, known
}

// same reports whether a pod is as it was said, and uses the same within 1 %.
func same(said, now *status.Pod) bool {
	if (said.Usage == nil) != (now.Usage == nil) || !reflect.DeepEqual(said.Pod, now.Pod) {
		return false
	}
	if a, b := said.Usage, now.Usage; a != nil &&
		(!near(a.WorkingSet, b.WorkingSet) || !near(a.Reclaim(), b.Reclaim()) || !near(a.Tasks, b.Tasks) || a.Unused != b.Unused) {
		return false
	}
	return !slices.ContainsFunc(pressure.Signals(), func(signal pressure.Signal) bool {
		last, was := said.Disk.Of(signal)
		amount, is := now.Disk.Of(signal)
		return is != was || !near(last, amount)
	})
}

func near(said, now int64) bool { return math.Abs(float64(now-said)) <= 0.01*math.Abs(float64(said)) }

// State follows what the node was like. The zero value knows nothing.
type State struct {
	// Node is the document of the last line; nil before the first.
	Node *status.Document
}

// Take takes the next line.
func (s *State) Take(l *Line) (err error) {
	switch d, last := (&status.Document{}), s.Node; {
	case l.Node != nil:
		s.Node, err = status.ReadRecorded(l.Node)
		if last != nil && err == nil && s.Node.Time.Before(last.Time) { // a frame begins with the last document that had pods
			s.Node.Time, s.Node.LastTick, s.Node.Enforcement, s.Node.Signals = last.Time, last.LastTick, last.Enforcement, last.Signals
		}
	case l.Change != nil && last != nil:
		if err = json.Unmarshal(l.Change, d); err != nil { //nolint:musttag // of a request in doubt, which is not in it
			return fmt.Errorf("reading a line of the record: %w", err)
		}
		d.APIVersion, d.Kind, d.EvictdVersion, d.Revision, d.NodeName = last.APIVersion, last.Kind, last.EvictdVersion, last.Revision, last.NodeName
		d.Configuration, d.ConfigurationRefused = last.Configuration, last.ConfigurationRefused
		if d.Pods == nil {
			d.Pods, d.InFlight, d.BackOffs = last.Pods, last.InFlight, last.BackOffs
			d.DiskMeasured, d.DiskUnmeasured = last.DiskMeasured, last.DiskUnmeasured
		} else {
			d.Pods = append(slices.DeleteFunc(last.Pods, func(p status.Pod) bool {
				return slices.Contains(l.Gone, p.Key()) || slices.ContainsFunc(d.Pods, func(now status.Pod) bool { return now.Key() == p.Key() })
			}), d.Pods...)
		}
		s.Node = d
	}
	return err
}
