//go:build e2e || e2e_all

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/test/internal/node"
)

// recorded waits until the record tells of an incident in which that pod was ended as it should. Then it kills evictd,
// reads the same in its next container, and on the machine the same story of what that container exports, and its replay.
func (s *scene) recorded(w *worker, ended func(*history.Incident) []string) {
	s.Helper()
	key := s.namespace + "/" + w.Name
	s.tells(w, ended)
	s.must(live.Kill(s.Context()))
	incident := s.tells(w, ended)
	story, err := live.Kubectl(s.Context(), "-n", node.Namespace, "exec", "ds/evictd", "--", "/evictd", "incidents", "show", incident.ID)
	s.must(err)
	if !strings.Contains(story, key) {
		s.Errorf("the story does not name %s:\n%s", key, story)
	}
	exported, err := live.Kubectl(s.Context(), "-n", node.Namespace, "exec", "ds/evictd", "--", "/evictd", "record", "export", "-o=-")
	s.must(err)
	path := filepath.Join(s.TempDir(), "record")
	s.must(os.WriteFile(path, []byte(exported), 0o600))
	here, err := exec.CommandContext(s.Context(), live.Files.Binary, "incidents", "show", incident.ID, "--record="+path).Output()
	s.must(err)
	replayed, err := exec.CommandContext(s.Context(), live.Files.Binary, "replay", "--record="+path).Output()
	s.must(err)
	// Whether the replay decides the same depends on what lies between two lines of the record: internal/sim asks that of
	// many records, and here a reader sees it.
	s.Logf("the replay:\n%s", replayed)
	if slices.Contains(incident.Evicted, key) && !strings.Contains(string(replayed), key) {
		s.Errorf("the replay does not name %s", key)
	}
	// What is told grows meanwhile: the totals of an open incident, and rows.
	same := s.rows(string(here))
	for _, row := range s.rows(story) {
		if !slices.Contains(same, row) {
			s.Errorf("evictd told\n%s\nand the export tells\n%s\nwithout %q", story, here, row)
		}
	}
}

// tells waits until the record tells of an incident in which that pod was ended as it should, and returns that. What the
// log said within the last second may not be in it yet, and a process that is killed loses that.
func (s *scene) tells(w *worker, ended func(*history.Incident) []string) (incident *history.Incident) {
	s.Helper()
	key := s.namespace + "/" + w.Name
	s.until("the record tells of "+key, func(ctx context.Context) bool {
		out, err := live.Kubectl(ctx, "-n", node.Namespace, "exec", "ds/evictd", "--", "/evictd", "incidents", "-o=json")
		var all []*history.Incident
		if err != nil || json.Unmarshal([]byte(out), &all) != nil {
			return false
		}
		at := slices.IndexFunc(all, func(i *history.Incident) bool { return slices.Contains(ended(i), key) })
		if at >= 0 {
			incident = all[at]
		}
		return at >= 0
	})
	return incident
}

// rows returns the rows of a story that have a time, each its first line: what sums it up changes while it goes on.
func (s *scene) rows(story string) (rows []string) {
	s.Helper()
	if rows = atATime.FindAllString(story, -1); len(rows) == 0 {
		s.Errorf("the story has no rows:\n%s", story)
	}
	return rows
}

var atATime = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d  .+$`)

func evicted(i *history.Incident) []string { return i.Evicted }
