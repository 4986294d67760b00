// Package api tests evictd's parts against a real etcd, kube-apiserver and kube-controller-manager:
// budgets, admission, preconditions and RBAC can only be verified there. There is no kubelet: pods are
// bound to a node that exists only as an object, and the tests write their status.
//
// Tests whose objects are the cluster's (account, policies, quotas, overlays, the controller manager) say
// so, are not parallel, and restore them. The audit log is everybody's: a test reads the lines of its own
// namespace or account.
package api
