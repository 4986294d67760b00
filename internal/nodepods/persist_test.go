package nodepods

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var pods = schema.GroupResource{Resource: "pods"}

func TestWhatTheReflectorMustSeeIsPassedOnAtOnce(t *testing.T) {
	t.Parallel()
	notThereYet := apierrors.NewTimeoutError("too large", 1)
	notThereYet.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"refused":          {errors.New("connection refused"), true},
		"overloaded":       {apierrors.NewTooManyRequests("later", 1), true},
		"internal":         {apierrors.NewInternalError(errors.New("etcd")), true},
		"unavailable":      {apierrors.NewServiceUnavailable("starting"), true},
		"unauthorized":     {apierrors.NewUnauthorized("expired"), true},
		"forbidden":        {apierrors.NewForbidden(pods, "", errors.New("no role")), true},
		"expired":          {apierrors.NewResourceExpired("compacted"), false},
		"version too new":  {notThereYet, false},
		"no such semantic": {apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil), false},
	} {
		if got := passing(test.err); got != test.want {
			t.Errorf("%s: passing %t, want %t", name, got, test.want)
		}
	}
}

// However long the API server was away, it is asked again soon after it is back, and
// not too often meanwhile.
func TestTheAPIServerIsAskedAgainSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = 10 * time.Minute
		back, asked, reported := time.Now().Add(outage), 0, 0
		s := &source{onError: func(error) { reported++ }}
		err := s.persist(t.Context(), "watching", func() error {
			asked++
			if time.Now().Before(back) {
				return errors.New("connection refused")
			}
			return nil
		})
		if late := time.Since(back); err != nil || late > 10*time.Second {
			t.Errorf("asked again %v after the outage, error %v; want 10 s at most", late, err)
		}
		if most := int(outage/longestWait) + 5; asked > most || reported != asked-1 {
			t.Errorf("asked %d times, reported %d; want %d times at most and each failure reported", asked, reported, most)
		}
	})
}

func TestPersistEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		refused, begin := errors.New("connection refused"), time.Now()
		s := &source{onError: func(error) {}}
		err := s.persist(ctx, "listing", func() error { return refused })
		if took := time.Since(begin); !errors.Is(err, refused) || took != 3500*time.Millisecond {
			t.Errorf("%v after %v; want the fault as soon as the context ends", err, took)
		}
	})
}
