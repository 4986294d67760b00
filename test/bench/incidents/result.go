package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	// Commit is that of the code.
	Commit string `json:"commit"`
	// Source is the last commit that changed what is measured, as the Makefile has it: results with the same are one
	// series. Empty is unknown.
	Source string `json:"source"`
	// Machine and Kubernetes say where and on what it ran.
	Machine    string `json:"machine"`
	Kubernetes string `json:"kubernetes"`
	// Load is the machine's load averages before the run. Disturbed is by how much other work changed what was available at most before the ballast gave way, in bytes.
	Load      string `json:"load"`
	Disturbed int64  `json:"disturbed"`
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
	// Timeline is what happened, for reading.
	Timeline []Moment `json:"timeline"`
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

// late returns how many seconds after it was below evictd's hard line the first pod ended, or was evicted; none where
// one of the two did not happen. Negative is before.
func (r *Result) late() (seconds []float64) {
	if crossed := r.line(hardLine); crossed.Below > 0 && len(r.Ends) > 0 {
		seconds = append(seconds, r.Ends[0].At-crossed.First)
	}
	return seconds
}

// by counts what these causes have ended.
func (r *Result) by(causes ...string) tally { return count(r.Ends, r.Smallest, r.Innocents, causes...) }

func (r *Result) file() string { return fmt.Sprintf("%02d-%s-%d", r.Scenario, r.Arm, r.Run) }

// write keeps a result.
func (r *Result) write(dir string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o755), //nolint:gosec // it is for reading
			os.WriteFile(filepath.Join(dir, r.file()+".json"), append(text, '\n'), 0o644)) //nolint:gosec // it is for reading
	}
	if err != nil {
		return fmt.Errorf("keeping a result: %w", err)
	}
	return nil
}

// readResults reads all of a folder.
func readResults(dir string) (results []Result, err error) {
	names, _ := filepath.Glob(filepath.Join(dir, "*.json")) // the pattern is well-formed
	for _, name := range names {
		r, err := readResult(name)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func readResult(name string) (r Result, err error) {
	text, err := os.ReadFile(name) //nolint:gosec // the caller's own folder
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading a result: %w", err)
	}
	return r, nil
}

// dirtyMark ends the name of a source with changes that are not committed.
const dirtyMark = "-dirty"

// done reports whether the run has a result of the same source, that is of one series. Results of an unknown source, or
// of one with changes that are not committed, are a series each.
func (s *settings) done(r *Result) (bool, error) {
	old, err := readResult(filepath.Join(s.results, r.file()+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return s.source != "" && old.Source == s.source && !strings.HasSuffix(s.source, dirtyMark), err
}
