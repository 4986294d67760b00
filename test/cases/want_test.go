package cases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/test/internal/pages"
)

// Want is what evictd must do or say. What is left out is not judged.
type Want struct {
	// Evicts are the pods that the API server was asked to evict and accepted, in their order; none
	// where it is empty.
	Evicts *[]string `json:"evicts"`
	// Asks are the pods that evictd asked for, each once, with those that were refused and those of dry runs.
	Asks *[]string `json:"asks"`
	// Says are fragments of its log, its Events or its output; Never are those that must not be there.
	Says  []string `json:"says"`
	Never []string `json:"never"`
	// Exit is the exit code; a run without one must not end.
	Exit *int `json:"exit"`
	// Metrics are sums of metrics of the running evictd, by their names.
	Metrics map[string]float64 `json:"metrics"`
	// Ranks are the candidates, in their order.
	Ranks *[]string `json:"ranks"`
	// Checks are states of lines of doctor, one or several separated by "|"; "*" is each other line,
	// but those of wake-ups, which depend on the machine.
	Checks map[string]string `json:"checks"`
}

func (w *Want) isEmpty() bool {
	return w.Evicts == nil && w.Asks == nil && len(w.Says) == 0 && len(w.Never) == 0 && w.Exit == nil && w.Ranks == nil && len(w.Checks) == 0 && len(w.Metrics) == 0
}

// Seen is what evictd did and said until now.
type Seen struct {
	command string
	evicted []string
	asked   []string
	// log is also the standard error of a command, answer its standard output; notes are the Events.
	log, answer string
	notes       []string
	metrics     pages.Metrics
	ended       bool
	exit        int
}

// unmet returns what is wanted and was not seen, a line each.
func (w *Want) unmet(s *Seen) []string {
	var lines []string
	add := func(format string, arguments ...any) { lines = append(lines, fmt.Sprintf(format, arguments...)) }
	order := func(name string, want *[]string, got []string) {
		if want != nil && !slices.Equal(*want, got) {
			add("%s %s: seen %s", name, list(*want), list(got))
		}
	}
	order("evicts", w.Evicts, s.evicted)
	order("asks", w.Asks, s.asked)
	if w.Ranks != nil {
		order("ranks", w.Ranks, s.ranked())
	}
	for name, want := range w.Metrics {
		if got, has := s.metrics.Sum(name); !has || got != want {
			add("metrics %s %v: seen %v (there: %v)", name, want, got, has)
		}
	}
	said := s.said()
	for _, fragment := range w.Says {
		if !contains(said, fragment) {
			add("says %q: it was not said", fragment)
		}
	}
	for _, fragment := range w.Never {
		if contains(said, fragment) {
			add("never %q: it was said", fragment)
		}
	}
	switch {
	case w.Exit != nil && !s.ended:
		add("exit %d: it runs", *w.Exit)
	case w.Exit != nil && s.exit != *w.Exit:
		add("exit %d: seen %d", *w.Exit, s.exit)
	case w.Exit == nil && s.ended && s.command == commandRun:
		add("evictd runs: it ended with exit code %d", s.exit)
	}
	return append(lines, w.unmetChecks(s)...)
}

func (w *Want) unmetChecks(s *Seen) []string {
	if len(w.Checks) == 0 {
		return nil
	}
	found, lines := s.checks(), []string(nil)
	for name, want := range w.Checks {
		if name != "*" && !slices.Contains(strings.Split(want, "|"), found[name]) {
			lines = append(lines, fmt.Sprintf("checks %s %s: seen %s", name, want, cmp.Or(found[name], "no such line")))
		}
	}
	for name, state := range found {
		others, all := w.Checks["*"]
		if _, named := w.Checks[name]; all && !named && !strings.HasPrefix(name, "wake-up/") && state != others {
			lines = append(lines, fmt.Sprintf("checks %s %s: seen %s", name, others, state))
		}
	}
	slices.Sort(lines)
	return lines
}

// contradicted reports whether something was seen that cannot become what is wanted.
func (w *Want) contradicted(s *Seen) bool {
	for _, one := range []struct {
		want *[]string
		got  []string
	}{{w.Evicts, s.evicted}, {w.Asks, s.asked}} {
		if one.want != nil && !slices.Equal(one.got, (*one.want)[:min(len(one.got), len(*one.want))]) {
			return true
		}
	}
	return false
}

// ranked are the candidates in the JSON of rank, or in the document of the running evictd.
func (s *Seen) ranked() []string {
	type ranking struct {
		Candidates []struct {
			Name string `json:"name"`
		} `json:"candidates"`
	}
	var answer struct {
		ranking

		Ranking ranking `json:"ranking"`
	}
	_ = json.Unmarshal([]byte(s.answer), &answer) // what is neither has no candidates
	names := []string{}
	for _, c := range append(answer.Candidates, answer.Ranking.Candidates...) {
		names = append(names, c.Name)
	}
	return names
}

// check is a line of doctor.
type check struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Found string `json:"found"`
}

func (s *Seen) lines() []check {
	var lines []check
	_ = json.Unmarshal([]byte(s.answer), &lines) // what is no list has no lines
	return lines
}

// checks are the states of doctor's lines.
func (s *Seen) checks() map[string]string {
	states := map[string]string{}
	for _, line := range s.lines() {
		states[line.Name] = line.State
	}
	return states
}

// said returns all texts that were said: each line, and each value in what is JSON, so that no author has
// to know how JSON writes a quotation mark.
func (s *Seen) said() []string {
	all := append(slices.Clone(s.notes), s.answer)
	for line := range strings.Lines(s.log) {
		all = append(all, line)
	}
	var texts []string
	for _, text := range all {
		texts = append(texts, text)
		var value any
		if json.Unmarshal([]byte(text), &value) == nil {
			texts = values(texts, value)
		}
	}
	return texts
}

func values(texts []string, of any) []string {
	switch value := of.(type) {
	case string:
		texts = append(texts, value)
	case []any:
		for _, one := range value {
			texts = values(texts, one)
		}
	case map[string]any:
		for _, one := range value {
			texts = values(texts, one)
		}
	}
	return texts
}

// decisions are the last lines of the log that say what evictd decided, or what a command printed: of
// doctor, what is not ok.
func (s *Seen) decisions() string {
	const most = 8
	var lines []string
	for _, line := range s.lines() {
		if line.State != "ok" {
			lines = append(lines, line.Name+" "+line.State+": "+line.Found)
		}
	}
	text := s.log
	if lines == nil {
		text = s.answer + s.log
	}
	for line := range strings.Lines(text) {
		if line = readable(line); line != "" {
			lines = append(lines, line)
		}
	}
	if s.command == commandRun {
		lines = lines[max(0, len(lines)-most):]
	}
	return "\n    " + strings.Join(lines, "\n    ")
}

// readable is a line of the log, without what seldom matters; "" where nothing of it does.
func readable(line string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		return strings.TrimRight(line, "\n")
	}
	if fields["msg"] != "decision" && fields["level"] == "info" {
		return ""
	}
	text := fmt.Sprint(fields["msg"])
	for _, key := range []string{"verb", "hold", "victim", "outcome", "detail", "error"} {
		if value, has := fields[key]; has {
			text += fmt.Sprintf(" %s=%v", key, value)
		}
	}
	return text
}

func list(names []string) string { return "[" + strings.Join(names, ", ") + "]" }

func contains(texts []string, fragment string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, fragment) })
}
