package fleet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/internal/eventually"
)

// Stop creates the ConfigMap that stops all agents, and returns how long after the request was sent
// each agent has not acted any more.
func (c *Calm) Stop(ctx context.Context) ([]time.Duration, error) {
	sent := time.Now()
	if _, err := c.client.CoreV1().ConfigMaps(account).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: acting.StopName}, Data: map[string]string{acting.StopReason: "a measurement"},
	}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("stopping the agents: %w", err)
	}
	return c.reached(ctx, acting.Stopped, sent)
}

// Resume deletes it, and returns how long after the request was sent each agent has acted again.
func (c *Calm) Resume(ctx context.Context) ([]time.Duration, error) {
	sent := time.Now()
	if err := c.client.CoreV1().ConfigMaps(account).Delete(ctx, acting.StopName, metav1.DeleteOptions{}); err != nil {
		return nil, fmt.Errorf("letting the agents act again: %w", err)
	}
	return c.reached(ctx, acting.Acts, sent)
}

// reached waits until the loop of each agent has a state in force, and returns when that began.
func (c *Calm) reached(ctx context.Context, want acting.Reason, sent time.Time) ([]time.Duration, error) {
	var took []time.Duration
	err := eventually.Poll(ctx, func(context.Context) bool {
		took = nil
		for _, a := range c.agents {
			if state, since := a.recorder.acts(); state.Reason == want {
				took = append(took, since.Sub(sent))
			}
		}
		return len(took) == len(c.agents)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until each agent is in the state %q: %w", want, err)
	}
	return took, nil
}
