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
	// Server are the checks that ask the API server. They are not made while that does not answer.
	Server
	// Edit are the checks whose results an edit of the configuration may change.
	Edit
	// All is the whole list.
	All = Node | Server | Edit
)

// check is an entry of the list.
type check struct {
	name  string
	parts Part
	run   func(context.Context, *Inputs) Result
}

// serverName is the check whose fault makes all later ones that ask the API server unknown.
const serverName = "api-server"

// list returns all checks of these inputs, in the order of the output: the node, then the API server.
func list(in *Inputs) []check {
	all := []check{{"configuration", Node | Edit, configuration}, {"cgroups", Node, cgroups}}
	if in.Followed != nil {
		all = append(all, in.followed()...)
	}
	onNode := in.Configuration.Disk.Source == config.DiskNode
	if onNode {
		all = append(all, check{"pod-disk/node", Node | Edit, podFiles})
	}
	all = append(all, check{"state-dir", Node, stateDir}, check{serverName, Server, server}, check{"clock", Server, clock},
		check{"node", Server, node}, check{"token", Server, token})
	for _, n := range needs(in) {
		if n.field != "" {
			all = append(all, check{"opt-in/" + n.field, Server | Edit, n.check})
			continue
		}
		for _, right := range n.rights {
			n.rights = []string{right}
			all = append(all, check{"right/" + right, Server, n.check})
		}
	}
	if in.Followed != nil {
		all = append(all, check{"act/stop", Server, stop})
	}
	for _, p := range policies() {
		all = append(all, check{policyFamily + p.name, Server, p.check})
	}
	if !onNode {
		all = append(all, check{"pod-disk/summary", Server, summary})
	}
	return all
}

// followed are the checks of what a running evictd follows and reports itself.
func (in *Inputs) followed() []check {
	f, all := in.Followed, []check{{"kubepods", Node, kubepods}}
	for i := range in.Readings {
		all = append(all, check{"signal/" + in.Readings[i].Signal.String(), Node, in.Readings[i].check})
	}
	for i := range f.Wakes {
		all = append(all, check{"wake-up/" + string(f.Wakes[i].Source), Node, fixed(wakeUp(&f.Wakes[i]))})
	}
	for _, result := range Kubelet(f) {
		all = append(all, check{result.Name, Node, fixed(result)})
	}
	return all
}

// Kubelet returns the results of the checks of the kubelet's configuration and thresholds, which are made after
// each change of evictd's too.
func Kubelet(f *Followed) []Result {
	file := kubeletFile(f)
	file.Name = "kubelet-config"
	results := []Result{file}
	for i := range f.Compared {
		result := kubeletThresholds(&f.Compared[i])
		result.Name = "kubelet-thresholds/" + f.Compared[i].Signal.String()
		results = append(results, result)
	}
	return results
}

// fixed is a check whose result is known.
func fixed(result Result) func(context.Context, *Inputs) Result {
	return func(context.Context, *Inputs) Result { return result }
}

// Run makes the checks of some parts, and returns the results in the order of the list.
func Run(ctx context.Context, in *Inputs, parts Part) []Result {
	var results []Result
	answers := true
	for _, c := range list(in) {
		if c.parts&parts == 0 {
			continue
		}
		result := unknown("not checked: the API server does not answer", "it shows only when evictd needs it",
			"see "+serverName+", then run evictd doctor again")
		if answers || c.parts&Server == 0 {
			result = c.run(ctx, in)
		}
		result.Name = c.name
		answers = answers && (c.name != serverName || result.State == OK)
		results = append(results, result)
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
