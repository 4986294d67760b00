// Package integration tests evictd's parts against a real etcd, kube-apiserver and
// kube-controller-manager: budgets, admission, preconditions and RBAC can only be verified
// there. There is no kubelet: pods are bound to a node that exists only as an object, and
// the tests write their status.
package integration
