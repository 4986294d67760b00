package decide_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// growing returns a situation in which 25 of 100 are missing, of 20 that were used up within 5 seconds: by the pod
// leak, which holds 500 within its request. Beside it the pod small uses 30, over its request.
func growing() *decide.Situation {
	s := short(pressure.MemoryAvailable)
	available(s, 75)
	pod := func(name string) *nodepods.Pod {
		return &nodepods.Pod{UID: name, CgroupUID: name, Namespace: "shop", Name: name, Started: true}
	}
	s.Pods = []*nodepods.Pod{pod("leak"), pod("small")}
	s.Pods[0].MemoryRequest, s.Pods[1].MemoryRequest = 600, 10
	s.Uses = &decide.Uses{
		ByUID:  map[string]decide.Use{"leak": usage(500), "small": usage(30)},
		Growth: decide.Growth{Over: 5 * second, Taken: 20, Grown: 20, ByUID: map[string]int64{"leak": 18, "small": 2}},
	}
	return s
}

// protectionOfSmall returns how the pod small of growing is protected by a plan.
func protectionOfSmall(plan *decide.Plan) rank.Protection {
	for _, e := range plan.Decision.Ranking.Protected {
		if e.Pod.Name == "small" {
			return e.Protection
		}
	}
	return rank.NotProtected
}

// TestGrowingPodConfirmsTheForecast: where readings vary so much that no rate is certain, a pod within its
// request that grows is evicted when it would use up what is left; where the pods do not grow, it is not.
func TestGrowingPodConfirmsTheForecast(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*decide.Situation)
		evicted bool
	}{
		"as it is":                    {func(*decide.Situation) {}, true},
		"the pods grow slower":        {func(s *decide.Situation) { s.Uses.Growth.Steady = 4.8 }, false},
		"the fall is slower":          {func(s *decide.Situation) { s.Pressure.Forecast.Rate = 4.8 }, false},
		"it does not fall":            {func(s *decide.Situation) { s.Pressure.Forecast.Rate = 0 }, false},
		"the growth is not known":     {func(s *decide.Situation) { s.Uses.Growth = decide.Growth{} }, false},
		"they grew for a short while": {func(s *decide.Situation) { s.Uses.Growth.SteadyOver /= 2 }, false},
		"not all the time":            {func(s *decide.Situation) { s.Uses.Growth.Steady = 0 }, false},
		"the fall is certain": {func(s *decide.Situation) {
			s.Pressure.Forecast.Least, s.Uses.Growth = 5.5, decide.Growth{}
		}, true},
	} {
		s := growing()
		s.Pods, s.Uses.Growth.Steady, s.Uses.Growth.SteadyOver = s.Pods[:1], 6, 5*second
		s.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 5.5, Over: 10 * second}
		test.change(s)
		plan, hold, detail := decide.Decide(s)
		if got := len(plan.Candidates) > 0; got != test.evicted {
			t.Errorf("%s: evicted %v, want %v (%s: %s)", name, got, test.evicted, hold, detail)
		}
	}
}

func available(s *decide.Situation, amount int64) {
	s.Pressure.Observed.Available = amount
	s.Sample.Observations[pressure.MemoryAvailable].Available = amount
}

func usage(amount int64) decide.Use {
	return decide.Use{Value: amount, Known: true, Expected: pressure.Amounts{}.With(pressure.MemoryAvailable, amount)}
}

// TestSmallCandidateWhileAPodFillsTheDisk: while figures are from before the pressure, or alone, or show that
// the host fills the disk, a candidate whose space would be used up within 30 seconds is withheld, but for
// one that is seen to grow.
func TestSmallCandidateWhileAPodFillsTheDisk(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*decide.Situation)
		hold   decide.Hold
	}{
		"as it is": {func(*decide.Situation) {}, decide.HoldUsageUnknown},
		"the figures are new, and the pods fill it": {func(s *decide.Situation) {
			s.Uses.Outdated, s.Uses.Growth.Grown = "", 10
		}, decide.HoldNone},
		"the figures are new, and the host fills it": {func(s *decide.Situation) { s.Uses.Outdated = "" }, decide.HoldInsufficientReclaim},
		"the host fills it slowly": {func(s *decide.Situation) {
			s.Uses.Outdated, s.Pressure.Forecast.Rate = "", 2
		}, decide.HoldNone},
		"the host fills it, and almost nothing is left": {func(s *decide.Situation) {
			s.Uses.Outdated, s.Pressure.Observed.Available = "", 50
		}, decide.HoldInsufficientReclaim},
		"there is no earlier measurement": {func(s *decide.Situation) {
			s.Uses.Outdated, s.Uses.Growth = "", decide.Growth{}
		}, decide.HoldUsageUnknown},
		"its space lasts":               {func(s *decide.Situation) { s.Pressure.Forecast.Least = 2 }, decide.HoldNone},
		"the forecast is not known":     {func(s *decide.Situation) { s.Pressure.Forecast.Known = false }, decide.HoldNone},
		"no reclaim is too small":       {func(s *decide.Situation) { s.Policy.MinimumReclaim = pressure.Quantity{} }, decide.HoldNone},
		"it grows":                      {func(s *decide.Situation) { s.Uses.Growth.ByUID["uid-hog"] = 5 }, decide.HoldNone},
		"it grows by too little":        {func(s *decide.Situation) { s.Uses.Growth.ByUID["uid-hog"] = 3 }, decide.HoldUsageUnknown},
		"it grows while space is freed": {func(s *decide.Situation) { s.Uses.Growth.Taken, s.Uses.Growth.ByUID["uid-hog"] = -1, 5 }, decide.HoldNone},
	} {
		s := short(pressure.NodeFSAvailable)
		measured(s, 60)
		s.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 3, Least: 3}
		s.Uses.Outdated = "the figures of 2 pods are from before the pressure"
		s.Uses.Growth = decide.Growth{Over: 5 * second, Taken: 20, ByUID: map[string]int64{"uid-hog": 0}}
		test.change(s)
		if _, hold, detail := decide.Decide(s); hold != test.hold {
			t.Errorf("%s: held by %q, want %q: %s", name, hold, test.hold, detail)
		}
	}
}

// TestSmallCandidateBesideAGrowingPod: a candidate is withheld only where what it would free is used
// up within 30 seconds, by pods that may be evicted later and then suffice.
func TestSmallCandidateBesideAGrowingPod(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(*decide.Situation)
		withheld bool
	}{
		"as it is":                      {func(*decide.Situation) {}, true},
		"what it frees lasts for 30 s":  {func(s *decide.Situation) { s.Uses.Growth.Over = 18 * second }, false},
		"what it frees lasts almost so": {func(s *decide.Situation) { s.Uses.Growth.Over = 17 * second }, true},
		"the growth is not known":       {func(s *decide.Situation) { s.Uses.Growth = decide.Growth{} }, false},
		"the growing pod is not known":  {func(s *decide.Situation) { delete(s.Uses.Growth.ByUID, "leak") }, false},
		"it grew by less than a half":   {func(s *decide.Situation) { s.Uses.Growth.ByUID["leak"] = 9 }, false},
		"it grew by a half":             {func(s *decide.Situation) { s.Uses.Growth.ByUID["leak"] = 10 }, true},
		"the host freed as much":        {func(s *decide.Situation) { s.Uses.Growth.Taken = -1 }, true},
		"a step between the readings": {func(s *decide.Situation) {
			s.Uses.Growth.Taken, s.Pressure.Forecast = 100, pressure.Forecast{Known: true, Rate: 4}
		}, true},
		"by the forecast the pods grew by less than a half": {func(s *decide.Situation) {
			s.Uses.Growth.Taken, s.Pressure.Forecast = 100, pressure.Forecast{Known: true, Rate: 7.5}
		}, false},
		"it shrank":           {func(s *decide.Situation) { s.Uses.Growth.Taken, s.Uses.Growth.ByUID["leak"] = -1, -1 }, false},
		"it does not suffice": {func(s *decide.Situation) { s.Uses.ByUID["leak"] = usage(24) }, false},
		"it would free an unknown amount": {func(s *decide.Situation) {
			s.Uses.ByUID["leak"] = decide.Use{Value: 500, Known: true}
		}, false},
		"it exceeds its request by less": {func(s *decide.Situation) { s.Pods[0].MemoryRequest = 499 }, true},
		"two grow by a quarter each": {func(s *decide.Situation) {
			second := *s.Pods[0]
			second.UID, second.CgroupUID, second.Name = "second", "second", "second"
			s.Pods = append(s.Pods, &second)
			s.Uses.ByUID["second"] = usage(20)
			s.Uses.Growth.ByUID["leak"], s.Uses.Growth.ByUID["second"] = 5, 5
		}, true},
		"it has a higher priority":  {func(s *decide.Situation) { s.Pods[0].Priority = 1 }, false},
		"it has a lower priority":   {func(s *decide.Situation) { s.Pods[0].Priority = -1 }, true},
		"the candidate is unknown":  {func(s *decide.Situation) { s.Uses.ByUID["small"] = decide.Use{Value: 30, Known: true} }, false},
		"it is never evicted":       {func(s *decide.Situation) { s.Policy.WithinRequests = decide.WithinRequestsAlways }, false},
		"it is ranked as others":    {func(s *decide.Situation) { s.Policy.WithinRequests = decide.WithinRequestsNever }, false},
		"no reclaim is too small":   {func(s *decide.Situation) { s.Policy.MinimumReclaim = pressure.Quantity{} }, false},
		"it is protected otherwise": {func(s *decide.Situation) { s.Pods[0].Static = true }, false},
		"it is a candidate already": {func(s *decide.Situation) {
			available(s, 49)
		}, true},
	} {
		s := growing()
		test.change(s)
		plan, hold, detail := decide.Decide(s)
		protection := protectionOfSmall(&plan)
		if got := protection == rank.ProtectedReclaimTooSmall; got != test.withheld {
			t.Errorf("%s: small is protected as %q, withheld should be %v (%s: %s)", name, protection, test.withheld, hold, detail)
		}
		if len(plan.Candidates) == 0 && test.withheld && hold != decide.HoldInsufficientReclaim {
			t.Errorf("%s: held by %q: %s", name, hold, detail)
		}
	}
}

// TestSmallCandidateWhileTheHostUsesItUp: where the pods did not use up what is missing, a candidate that
// is used up within 30 seconds is withheld until the signal runs out, and then where a larger one must go.
func TestSmallCandidateWhileTheHostUsesItUp(t *testing.T) {
	t.Parallel()
	runsOut := func(s *decide.Situation) { // less than half of the line is left, and the larger pod ends in 25 s
		available(s, 49)
		s.Pods[0].GraceSeconds = 10
	}
	for name, test := range map[string]struct {
		change   func(*decide.Situation)
		withheld bool
	}{
		"as it is":                   {func(*decide.Situation) {}, true},
		"the pods used up a half":    {func(s *decide.Situation) { s.Uses.Growth.Grown = 10 }, false},
		"new pods hold a half":       {func(s *decide.Situation) { s.Uses.Growth.Unread = 10 }, false},
		"the growth is not known":    {func(s *decide.Situation) { s.Uses.Growth = decide.Growth{} }, false},
		"the forecast is not known":  {func(s *decide.Situation) { s.Pressure.Forecast.Known = false }, false},
		"it is not used up any more": {func(s *decide.Situation) { s.Pressure.Forecast.Rate = 0 }, false},
		"it lasts by the forecast":   {func(s *decide.Situation) { s.Pressure.Forecast.Rate = 1 }, false},
		"it lasts by the readings":   {func(s *decide.Situation) { s.Uses.Growth.Over = 20 * second }, false},
		"no reclaim is too small":    {func(s *decide.Situation) { s.Policy.MinimumReclaim = pressure.Quantity{} }, false},
		"it runs out":                {runsOut, true},
		"it grew by a twentieth":     {func(s *decide.Situation) { s.Uses.Growth.ByUID["small"] = 1 }, false},
		"it was not read before":     {func(s *decide.Situation) { delete(s.Uses.Growth.ByUID, "small") }, false},
		"it runs out, and the larger one counts for more": {func(s *decide.Situation) {
			runsOut(s)
			s.Pods[0].Priority = 1
		}, false},
		"it runs out, and the larger one does not suffice": {func(s *decide.Situation) {
			runsOut(s)
			s.Uses.ByUID["leak"] = usage(50)
		}, false},
		"it runs out, and the larger one need not go then": {func(s *decide.Situation) {
			runsOut(s)
			s.Pods[0].GraceSeconds = 1
		}, false},
	} {
		s := growing()
		s.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 4, Least: 4, Over: time.Minute}
		s.Uses.Growth = decide.Growth{Over: 5 * second, Taken: 20, ByUID: map[string]int64{"leak": 0, "small": 0}}
		test.change(s)
		plan, hold, detail := decide.Decide(s)
		protection := protectionOfSmall(&plan)
		if got := protection == rank.ProtectedReclaimTooSmall; got != test.withheld {
			t.Errorf("%s: small is protected as %q, withheld should be %v (%s: %s)", name, protection, test.withheld, hold, detail)
		}
	}
}
