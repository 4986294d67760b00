package doctor

import "context"

// Subject is what the checks look at. A function that returns an error says why its thing could
// not be looked at, in one sentence.
type Subject struct {
	// Configuration is the file that evictd is, or would be, started with.
	Configuration Configuration
	// Host is the node.
	Host Host
	// API is the API server.
	API API
}

// row is one entry of the list.
type row struct {
	// api says that the check sends requests to the API server. It is not run while that does
	// not answer, and its lines then say so.
	api bool
	// names are those of its findings; only needed with api.
	names func(*Subject) []string
	run   func(context.Context, *Subject) []Finding
}

// rows are all checks, in the order of the output: the node, then the API server. The first one of
// the API server decides whether the others are run.
func rows() []row {
	return []row{
		{run: func(_ context.Context, s *Subject) []Finding { return one(configuration(&s.Configuration)) }},
		{run: func(_ context.Context, s *Subject) []Finding { return one(cgroups(s.Host.Cgroups)) }},
		{run: func(_ context.Context, s *Subject) []Finding { return one(kubepods(s.Host.Kubepods)) }},
		{run: func(_ context.Context, s *Subject) []Finding {
			return signals(s.Configuration.Thresholds, s.Host.Signal)
		}},
		{run: func(_ context.Context, s *Subject) []Finding { return wakeUps(s.Host.WakeUps) }},
		{run: func(_ context.Context, s *Subject) []Finding {
			return podFiles(s.Host.PodFiles, s.Configuration.Thresholds)
		}},
		{run: func(_ context.Context, s *Subject) []Finding { return kubelet(s.Host.Kubelet) }},
		{run: func(_ context.Context, s *Subject) []Finding {
			return one(stateDir(s.Host.StateDir, s.Host.TryStateDir))
		}},
		{run: func(ctx context.Context, s *Subject) []Finding { return server(ctx, &s.API) }},
		asked(named(nodeName), func(ctx context.Context, s *Subject) []Finding { return one(node(ctx, s.API.Node)) }),
		asked(named(tokenName), func(ctx context.Context, s *Subject) []Finding { return one(token(ctx, s.API.Account, s.API.NodeName)) }),
		askedForEach(func(s *Subject) []Right { return s.API.Rights }, rightName, right),
		askedForEach(func(s *Subject) []OptIn { return s.API.OptIns }, optInName, optIn),
		asked(named(stopName), func(ctx context.Context, s *Subject) []Finding { return one(stopped(ctx, s.API.Stop)) }),
		askedForEach(func(s *Subject) []Policy { return s.API.Policies }, policyName, policy),
		asked(summaryNames, func(ctx context.Context, s *Subject) []Finding {
			return summary(ctx, s.API.Summary, s.Configuration.Thresholds)
		}),
	}
}

func one(f Finding) []Finding { return []Finding{f} }

func named(name string) func(*Subject) []string {
	return func(*Subject) []string { return []string{name} }
}

func asked(names func(*Subject) []string, run func(context.Context, *Subject) []Finding) row {
	return row{api: true, names: names, run: run}
}

// askedForEach is a check of each thing in a list, one line each.
func askedForEach[T any](all func(*Subject) []T, name func(*T) string, find func(context.Context, *T) Finding) row {
	names := func(s *Subject) (names []string) {
		things := all(s)
		for i := range things {
			names = append(names, name(&things[i]))
		}
		return names
	}
	return asked(names, func(ctx context.Context, s *Subject) (findings []Finding) {
		things := all(s)
		for i := range things {
			findings = append(findings, find(ctx, &things[i]))
		}
		return findings
	})
}

// Examine runs every check and returns the findings in the order of the list. It changes nothing:
// what it sends are reads, reviews and server-side dry runs.
func Examine(ctx context.Context, s *Subject) []Finding {
	var findings []Finding
	for _, row := range rows() {
		if row.api && !answered(findings) {
			findings = append(findings, unasked(row.names(s))...)
			continue
		}
		findings = append(findings, row.run(ctx, s)...)
	}
	return findings
}

// answered reports whether the API server has answered.
func answered(findings []Finding) bool {
	for i := range findings {
		if findings[i].Name == serverName {
			return findings[i].State == OK
		}
	}
	return false
}

// unasked are the findings of checks that were not run.
func unasked(names []string) []Finding {
	findings := make([]Finding, 0, len(names))
	for _, name := range names {
		findings = append(findings, Finding{
			Name: name, State: Unknown, Found: "not checked: the API server does not answer",
			Follows: "it shows only when evictd needs it", Do: "see " + serverName + ", then run evictd doctor again",
		})
	}
	return findings
}
