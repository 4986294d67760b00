package faults

import (
	"context"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// A new binary under an old Role does not act, says so once, and acts once it has the right.
func TestStopWithoutTheRight(t *testing.T) {
	t.Parallel()
	a := evictdtest.NewAgent(t)
	meta := metav1.ObjectMeta{Name: a.Namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "evictd", Namespace: a.Namespace}}
	a.Must(a.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), a.Namespace, metav1.DeleteOptions{}))
	_, err := a.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction", "events"}, Verbs: []string{"create", "patch"}},
	}}, metav1.CreateOptions{})
	a.Must(err)
	a.Undo(func(ctx context.Context) {
		_ = a.Client.RbacV1().ClusterRoles().Delete(ctx, a.Namespace, metav1.DeleteOptions{})
	})
	_, err = a.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.Namespace},
	}, metav1.CreateOptions{})
	a.Must(err)
	sent := evictdtest.Record(a)
	a.Launch()
	a.Acting("StopUnknown")
	a.Press()
	a.Decided("which the account may not watch")
	if status, text := a.Evictd.Get(t.Context(), "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "whether evictd may act") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	a.Ticks(20)
	if all := sent.Real(); len(all) != 0 {
		t.Errorf("it sent %+v", all)
	}
	if log := a.Evictd.Log.String(); strings.Count(log, `"evictd does not act"`) != 1 || !strings.Contains(log, "apply the Role") {
		t.Error("it does not say once, with what to do, that it does not act")
	}

	_, err = a.Client.RbacV1().Roles(a.Namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "evictd"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{acting.StopName}, Verbs: []string{"get", "list", "watch"}},
	}}, metav1.CreateOptions{})
	a.Must(err)
	_, err = a.Client.RbacV1().RoleBindings(a.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "evictd"}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "evictd"},
	}, metav1.CreateOptions{})
	a.Must(err)
	a.Acting("")
	a.ExpectVictims("large")
}
