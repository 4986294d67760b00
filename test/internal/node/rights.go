package node

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Account is evictd's service account, as the API server names it.
const Account = "system:serviceaccount:" + Namespace + ":evictd"

// Rights returns, verb by verb, what evictd's account may do in every namespace with the
// resources that it uses or must not use. The keys are "verb resource" or "verb
// resource/subresource". It uses the API server's own boolean answer: the output of kubectl
// auth can-i contains warnings.
func Rights(ctx context.Context, client kubernetes.Interface) (map[string]bool, error) {
	rights := map[string]bool{}
	for _, resource := range []string{
		"pods", "pods/eviction", "pods/exec", "pods/status", "pods/binding", "events",
		"nodes", "nodes/stats", "nodes/proxy", "nodes/status", "secrets", "configmaps", "serviceaccounts/token",
	} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			allowed, err := may(ctx, client, verb, resource)
			if err != nil {
				return nil, err
			}
			rights[verb+" "+resource] = allowed
		}
	}
	return rights, nil
}

func may(ctx context.Context, client kubernetes.Interface, verb, resource string) (bool, error) {
	name, sub, _ := strings.Cut(resource, "/")
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   Account,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Resource: name, Subresource: sub,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether %s may %s %s: %w", Account, verb, resource, err)
	}
	if review.Status.EvaluationError != "" {
		return false, fmt.Errorf("asking whether %s may %s %s: %s", Account, verb, resource, review.Status.EvaluationError)
	}
	return review.Status.Allowed, nil
}
