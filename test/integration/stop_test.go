package integration

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/cluster"
)

// inForceWithin is how soon a stop must be in force.
const inForceWithin = 5 * time.Second

// stopEvictd creates the ConfigMap, and waits until evictd does not act.
func (s *scene) stopEvictd(reason string) {
	s.t.Helper()
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: acting.StopName}, Data: map[string]string{acting.StopReason: reason},
	}, metav1.CreateOptions{})
	s.must(err)
	s.notActing("Stopped", inForceWithin)
}

// notActing waits until evictd does not act for a reason, or acts.
func (s *scene) notActing(reason string, atMost time.Duration) {
	s.t.Helper()
	took := s.within("evictd does not act: "+reason, func() bool {
		dry, told := s.daemon.metric("evictd_dry_run")
		if reason == "" {
			return told && dry == 0
		}
		holds, _ := s.daemon.metric("evictd_dry_run_reason", "reason", reason)
		return told && dry == 1 && holds == 1
	})
	s.t.Logf("in force after %v: %q", took, reason)
	if atMost = cluster.Patiently(atMost); took > atMost {
		s.t.Errorf("it took %v until evictd did not act (%q), want at most %v", took, reason, atMost)
	}
}

// real returns the requests that were no dry runs.
func (s *scene) real(asked func() []forced) []forced {
	var all []forced
	for _, one := range asked() {
		if len(one.options.DryRun) == 0 {
			all = append(all, one)
		}
	}
	return all
}

// decided waits for a decision whose text has those parts.
func (s *scene) decided(parts ...string) {
	s.t.Helper()
	s.within("a decision says "+strings.Join(parts, ", "), func() bool {
		_, page := s.daemon.get("/debug/decisions")
		for _, part := range parts {
			if !strings.Contains(page, part) {
				return false
			}
		}
		return true
	})
}

// While the ConfigMap exists, evictd decides and records and evicts no pod. Without it, it evicts.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	asked := s.forcing()
	s.start()
	s.within("evictd is ready", s.ready)
	s.notActing("", inForceWithin)
	s.stopEvictd("evicts the wrong pods")
	s.pressed()
	s.decided("WouldEvict", s.namespace+"/evictd-stop stops it: \\\"evicts the wrong pods\\\"")
	if sent := s.real(asked); len(sent) != 0 || s.terminating("large") || s.terminating("small") {
		t.Errorf("a stopped evictd sent %+v", sent)
	}
	s.must(s.client.CoreV1().ConfigMaps(s.namespace).Delete(t.Context(), acting.StopName, metav1.DeleteOptions{}))
	s.notActing("", inForceWithin)
	s.within("the pressure is over", s.relieved)
	if sent := s.real(asked); len(sent) != 1 {
		t.Errorf("after the stop evictd sent %+v, want one eviction", sent)
	}
}

// A new binary under an old Role does not act, says so once, and acts once it has the right.
func TestStopWithoutTheRight(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	meta := metav1.ObjectMeta{Name: s.namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "evictd", Namespace: s.namespace}}
	s.must(s.client.RbacV1().ClusterRoleBindings().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
	_, err := s.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction", "events"}, Verbs: []string{"create", "patch"}},
	}}, metav1.CreateOptions{})
	s.must(err)
	t.Cleanup(func() {
		_ = s.client.RbacV1().ClusterRoles().Delete(context.Background(), s.namespace, metav1.DeleteOptions{})
	})
	_, err = s.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.namespace},
	}, metav1.CreateOptions{})
	s.must(err)
	asked := s.forcing()
	s.start()
	s.notActing("StopUnknown", recovery)
	s.pressed()
	s.decided("which the account may not watch")
	if status, text := s.daemon.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "whether evictd may act") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	s.endure(10 * time.Second)
	if sent := s.real(asked); len(sent) != 0 {
		t.Errorf("it sent %+v", sent)
	}
	if said := strings.Count(s.daemon.log.String(), `"evictd does not act"`); said != 1 || !strings.Contains(s.daemon.log.String(), "apply the Role") {
		t.Errorf("said %d times, want once, with what to do", said)
	}

	_, err = s.client.RbacV1().Roles(s.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "evictd"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{acting.StopName}, Verbs: []string{"get", "list", "watch"}},
	}}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.client.RbacV1().RoleBindings(s.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "evictd"}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "evictd"},
	}, metav1.CreateOptions{})
	s.must(err)
	s.notActing("", recovery)
	s.within("the pressure is over", s.relieved)
}
