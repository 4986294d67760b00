package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// Result is one run, in a file of its own. The table is made from these files.
type Result struct {
	Scenario int    `json:"scenario"`
	Name     string `json:"name"`
	Arm      string `json:"arm"`
	// Run is the number of the run, and its seed: both arms of one run have the same.
	Run int `json:"run"`
	// Signal is that of the scenario's lines.
	Signal string `json:"signal"`
	// Commit is that of the benchmark, Evictd the version that evictd's binary tells.
	Commit string `json:"commit"`
	Evictd string `json:"evictd"`
	// Source is the last commit that changed what is measured, as the Makefile has it: results with the same are one
	// series. Empty is unknown.
	Source string `json:"source"`
	// Machine, Kernel and Kubernetes say where and on what it ran.
	Machine    string `json:"machine"`
	Kernel     string `json:"kernel"`
	Kubernetes string `json:"kubernetes"`
	// Lines are the thresholds in force for memory, DiskLines those for the node's disk.
	Lines     lines     `json:"lines"`
	DiskLines diskLines `json:"diskLines"`
	Began     time.Time `json:"began"`
	// Seconds is how long the whole run took, Incident how long of that was the incident.
	Seconds  float64 `json:"seconds"`
	Incident float64 `json:"incident"`
	// Load is the load average at its end, Steal the share of CPU time that the machine's host
	// took, and Busy the share that was used, both in per cent. Disturbed is by how much other
	// work changed what was available at most before the ballast gave way, in bytes.
	Load      string  `json:"load"`
	Steal     float64 `json:"steal"`
	Busy      float64 `json:"busy"`
	Disturbed int64   `json:"disturbed"`
	// Ends are the pods that ended, whatever the cause; Smallest and Innocents are the scenario's.
	Ends      []End          `json:"ends"`
	Smallest  map[string]int `json:"smallest"`
	Innocents []string       `json:"innocents"`
	// OOMKills is the kernel's count on the whole machine, Violated how often a budget was.
	OOMKills int64 `json:"oomKills"`
	Violated int   `json:"violated"`
	// Memory is what was seen of the lines of memory, Disk of those of the node's disk.
	Memory []Line `json:"memory"`
	Disk   []Line `json:"disk"`
	// Asked and Failed are the requests of the steady client.
	Asked  int `json:"asked"`
	Failed int `json:"failed"`
	// PodGap and KubeletGap are the longest heartbeat gaps, in seconds.
	PodGap     float64 `json:"podGap"`
	KubeletGap float64 `json:"kubeletGap"`
	// Timeline is what happened, for reading, and so is Trace, which has a file of its own. When a line was
	// crossed is in Memory and Disk.
	Timeline []Moment `json:"timeline"`
	Trace    []Point  `json:"-"`
}

// line returns what was seen of a line of the scenario's signal; the zero value where the result
// has none.
func (r *Result) line(which int) Line {
	lines := r.Memory
	if r.Signal == node.ImageSpace {
		lines = r.Disk
	}
	if len(lines) < linesCount {
		return Line{}
	}
	return lines[which]
}

// relief is from the moment at which evictd's hard line was crossed until the signal was above it
// for good; zero when it was not. The line is the same in both arms.
func (r *Result) relief() float64 {
	hard := r.line(hardLine)
	if hard.Below == 0 {
		return 0
	}
	return hard.Last - hard.First
}

// by counts what these causes have ended.
func (r *Result) by(causes ...string) tally { return count(r.Ends, r.Smallest, r.Innocents, causes...) }

func (r *Result) file() string { return fmt.Sprintf("%02d-%s-%d", r.Scenario, r.Arm, r.Run) }

// write keeps a result, and its trace beside it.
func (r *Result) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // it is for reading
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	for name, value := range map[string]any{r.file() + ".json": r, r.file() + ".trace": r.Trace} {
		text, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			return fmt.Errorf("encoding a result: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644); err != nil { //nolint:gosec // it is for reading
			return fmt.Errorf("keeping a result: %w", err)
		}
	}
	return nil
}

// readResults reads all of a folder, in order of scenario, run and arm.
func readResults(dir string) ([]Result, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("looking for results: %w", err)
	}
	results := make([]Result, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name) //nolint:gosec // the caller's own folder
		if err != nil {
			return nil, fmt.Errorf("reading a result: %w", err)
		}
		var r Result
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", name, err)
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(a.Run, b.Run), strings.Compare(b.Arm, a.Arm))
	})
	return results, nil
}

// dirtyMark ends the name of a source with changes that are not committed.
const dirtyMark = "-dirty"

// same reports whether both results are of the same source, that is of one series. Results of
// an unknown source, or of one with changes that are not committed, are a series each.
func (r *Result) same(other *Result) bool {
	return r.Source != "" && r.Source == other.Source && !strings.HasSuffix(r.Source, dirtyMark)
}

// done reports whether the run has a result of the same source.
func (b *bench) done(r *Result) (bool, error) {
	text, err := os.ReadFile(filepath.Join(b.settings.results, r.file()+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var old Result
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	if err != nil {
		return false, fmt.Errorf("reading an earlier result: %w", err)
	}
	return old.same(&Result{Source: b.settings.source}), nil
}

// machine are the facts that are the same for all runs.
type machine struct{ kernel, kubernetes, evictd string }

// shares returns the shares of the machine's CPU time that were not idle, and that were stolen, in per cent.
func shares(c measure.MachineCPU) (busy, steal float64) {
	const percent = 100
	all := c.Busy + c.Idle + c.Stolen
	if all <= 0 {
		return 0, 0
	}
	return percent * float64(all-c.Idle) / float64(all), percent * float64(c.Stolen) / float64(all)
}

// describe fills in where and on what a run was.
func (b *bench) describe(r *Result) {
	r.Source, r.Commit, r.Evictd = b.settings.source, b.settings.commit, b.machine.evictd
	r.Kernel, r.Kubernetes = b.machine.kernel, b.machine.kubernetes
	r.Machine, _, _ = strings.Cut(measure.Machine(), "; load")
}
