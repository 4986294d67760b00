// Package checks is the one list of what evictd needs on its node and at the API server: for each
// thing what was found, what follows where it is not as it should be, and what to do.
//
// `evictd doctor` prints the whole list, and `helm test` runs that. A running evictd checks at its
// start what it does not follow anyway, and says what is not ok. A check is one function from the
// inputs to its result. To add one, write the function, its entry in [list] and its row in
// docs/cli.md. What is sent to the API server are reads, reviews and server-side dry runs.
package checks

import (
	"context"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/wording"
)

// State is what became of a check.
type State string

// The states.
const (
	// OK: evictd has what it needs.
	OK State = "ok"
	// Degraded is a warning: evictd works, with less than it could have.
	Degraded State = "degraded"
	// Missing is a fault: what evictd needs is not there, or refuses evictd.
	Missing State = "missing"
	// Unknown: it could not be looked at. It may be there or not.
	Unknown State = "unknown"
)

// Result is what became of one check, in one line for each text.
type Result struct {
	// Name is the check, and after a slash what it is about where there are several. Names are
	// stable; a name occurs once.
	Name  string `json:"name"`
	State State  `json:"state"`
	// Found is what was found, or why that is not known.
	Found string `json:"found"`
	// Follows is what it means for evictions; "" where the state is OK.
	Follows string `json:"follows"`
	// Do is how to fix it; "" where the state is OK.
	Do string `json:"do"`
}

// Sound reports whether evictd can do its work: nothing is missing and nothing is unknown.
func Sound(results []Result) bool {
	return !slices.ContainsFunc(results, func(r Result) bool { return r.State != OK && r.State != Degraded })
}

func ok(found string) Result { return Result{State: OK, Found: found} }

func degraded(found, follows, do string) Result { return Result{"", Degraded, found, follows, do} }

func missing(found, follows, do string) Result { return Result{"", Missing, found, follows, do} }

func unknown(found, follows, do string) Result { return Result{"", Unknown, found, follows, do} }

// oneLine keeps an error, which may be several or have a server's text in it, to one line.
func oneLine(err error) string {
	return wording.OneLine(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
}

// Part is a part of the list.
type Part uint8

// The parts. A check may be in several.
const (
	// Node are the checks of the node alone.
	Node Part = 1 << iota
	// Server are the checks that ask the API server. Only the first is made while that does not answer.
	Server
	// Edit are the checks whose results an edit of the configuration may change.
	Edit
	// Followed are the checks of what a running evictd follows, and reports itself.
	Followed
	// All is the whole list.
	All = Node | Server | Edit | Followed
)

// check is an entry of the list.
type check struct {
	name  string
	parts Part
	run   func(context.Context, *Inputs) Result
}

// serverName is the check whose fault ends the list: all later ones ask the API server too.
const serverName = "api-server"

// list returns all checks of these inputs, in the order of the output: the node, then the API server.
func list(in *Inputs) []check {
	all := []check{{"configuration", Node | Edit, configuration}, {"cgroups", Node, cgroups}, {"kubepods", Followed, kubepods}}
	for _, signal := range in.Signals {
		all = append(all, check{"signal/" + signal.String(), Followed, fixed(in.reading(signal))})
	}
	for i := range in.Wakes {
		all = append(all, check{"wake-up/" + string(in.Wakes[i].Source), Followed, fixed(wakeUp(&in.Wakes[i]))})
	}
	all = append(all, check{"kubelet-config", Node | Edit, kubeletFile})
	for i := range in.Compared {
		f := &in.Compared[i]
		all = append(all, check{"kubelet-thresholds/" + f.Signal.String(), Node | Edit, fixed(kubeletThresholds(f))})
	}
	onNode := in.Configuration.Disk.Source == config.DiskNode
	if onNode {
		all = append(all, check{"pod-disk/node", Node | Edit, podDisk})
	}
	all = append(all, check{"state-dir", Node, stateDir}, check{serverName, Server, server}, check{"node", Server, node},
		check{"token", Server, token})
	for _, n := range needs(in) {
		for _, right := range n.rights {
			all = append(all, check{"right/" + right, n.parts, n.check(right)})
		}
	}
	for _, p := range policies(in) {
		all = append(all, check{policyFamily + p.name, Server, p.check})
	}
	if !onNode {
		all = append(all, check{"pod-disk/summary", Server, podDisk})
	}
	return all
}

// fixed is a check whose result is known.
func fixed(result Result) func(context.Context, *Inputs) Result {
	return func(context.Context, *Inputs) Result { return result }
}

// Run makes the checks of some parts, and returns the results in the order of the list.
func Run(ctx context.Context, in *Inputs, parts Part) []Result {
	var results []Result
	for _, c := range list(in) {
		if c.parts&parts == 0 {
			continue
		}
		result := c.run(ctx, in)
		result.Name = c.name
		results = append(results, result)
		if c.name == serverName && result.State != OK {
			break
		}
	}
	return results
}

// Confined says, by the results of the policies' checks, whether the API server's admission policies confine
// evictd to its node. It is known where one policy did not refuse what it must, or each did.
func Confined(results []Result) (confined, known bool) {
	states := map[State]bool{}
	for i := range results {
		if strings.HasPrefix(results[i].Name, policyFamily) {
			states[results[i].State] = true
		}
	}
	confined = states[OK] && len(states) == 1
	return confined, confined || states[Missing]
}
