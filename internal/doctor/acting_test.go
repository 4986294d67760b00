package doctor

import (
	"context"
	"testing"
)

func TestStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given Stop
		fault error
		want  expectation
	}{
		"not stopped":      {Stop{ConfigMap: "e/s"}, nil, expectation{OK, "no ConfigMap e/s", "", ""}},
		"stopped":          {Stop{ConfigMap: "e/s", Exists: true}, nil, expectation{Degraded, "ConfigMap e/s exists", "no node", "delete it"}},
		"stopped, and why": {Stop{ConfigMap: "e/s", Exists: true, Reason: "bad\trules"}, nil, expectation{Degraded, `exists: bad\trules`, "no node", "delete it"}},
		"not known":        {Stop{}, errPlanted, expectation{Unknown, "planted", "does not act", "right/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, stopped(t.Context(), func(context.Context) (Stop, error) { return c.given, c.fault }))
		})
	}
}
