package confined

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answering is a policy with a fixed answer.
func answering(name string, answer Answer, err error) Policy {
	return Policy{Name: name, Without: "everything goes", Try: func(context.Context) (Answer, error) { return answer, err }}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	refuses, needless, lets := answering("refuses", RefusedByPolicy, nil), answering("needless", RefusedByRBAC, nil), answering("lets", Accepted, nil)
	vacuous := answering("vacuous", Accepted, fmt.Errorf("%w: one node", ErrNothingToTry))
	silent := answering("silent", Accepted, errors.New("no answer\nat all"))
	for name, c := range map[string]struct {
		policies []Policy
		want     Result
	}{
		"all refuse":             {[]Policy{refuses, needless}, Result{Confined, ""}},
		"one lets it through":    {[]Policy{refuses, silent, lets}, Result{Unconfined, "lets does not refuse what it must: everything goes"}},
		"two let it through":     {[]Policy{lets, lets}, Result{Unconfined, "lets does not refuse what it must: everything goes; lets does not refuse what it must: everything goes"}},
		"nothing to try it with": {[]Policy{refuses, vacuous}, Result{Unknown, "vacuous could not be tried: there is nothing that the policy would refuse: one node"}},
		"no answer":              {[]Policy{silent, refuses}, Result{Unknown, "silent could not be tried: no answer; at all"}},
		"no policy":              {nil, Result{Unknown, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Check(t.Context(), c.policies); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// watched runs a Watcher on these results, the last of which goes on, and returns when it checked
// and what it reported.
func watched(t *testing.T, lasts time.Duration, random float64, results ...State) (checks []time.Duration, reports []State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	begin := time.Now()
	w := Watcher{
		Check: func(context.Context) Result {
			checks = append(checks, time.Since(begin))
			return Result{State: results[min(len(checks), len(results))-1]}
		},
		Report: func(r Result) { reports = append(reports, r.State) },
		Random: func() float64 { return random },
	}
	w.Run(ctx)
	return checks, reports
}

func TestWatcher(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		results []State
		lasts   time.Duration
		checks  string
		reports []State
	}{
		"confined":                   {[]State{Confined}, 13 * time.Hour, "10s 6h0m10s 12h0m10s", []State{Confined}},
		"late policies":              {[]State{Unconfined, Confined}, time.Hour, "10s 20s", []State{Confined}},
		"not confined, then fixed":   {[]State{Unconfined, Unconfined, Unconfined, Confined}, time.Hour, "10s 20s 10m20s 20m20s", []State{Unconfined, Confined}},
		"a policy removed later":     {[]State{Confined, Unconfined}, 6*time.Hour + 5*time.Minute, "10s 6h0m10s 6h0m20s", []State{Confined, Unconfined}},
		"no API server, then one":    {[]State{Unknown, Unknown, Unknown, Confined}, time.Hour, "10s 1m10s 3m10s 7m10s", []State{Unknown, Confined}},
		"unknown between":            {[]State{Confined, Unknown, Confined}, 7 * time.Hour, "10s 6h0m10s 6h1m10s", []State{Confined, Unknown, Confined}},
		"unknown after not confined": {[]State{Unconfined, Unconfined, Unknown, Unconfined, Unconfined}, 12 * time.Minute, "10s 20s 10m20s 11m20s 11m30s", []State{Unconfined, Unknown, Unconfined}},
		"ends while it confirms":     {[]State{Unconfined}, 15 * s, "10s", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				checks, reports := watched(t, c.lasts, 0, c.results...)
				var at []string
				for _, check := range checks {
					at = append(at, check.String())
				}
				if got := strings.Join(at, " "); got != c.checks || !slices.Equal(reports, c.reports) {
					t.Errorf("checked at %s and reported %v, want %s and %v", got, reports, c.checks, c.reports)
				}
			})
		})
	}
}

// Where it cannot be told, as in a cluster of one node, the checks become rare.
func TestWatcherBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		checks, _ := watched(t, 30*time.Hour, 0.999, Unknown)
		last := checks[len(checks)-1] - checks[len(checks)-2]
		if checks[0] <= beforeFirst || len(checks) > 13 || last < whileConfined || last > whileConfined*11/10 {
			t.Errorf("checked at %v", checks)
		}
	})
}
