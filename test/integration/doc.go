// Package integration tests evictd's parts against a real etcd, kube-apiserver and
// kube-controller-manager: budgets, admission, preconditions and RBAC are only
// believable there. There is no kubelet: pods are bound to a node that is an
// object only, and the tests write their status.
package integration
