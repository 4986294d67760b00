// Package plugin holds the commands of `kubectl evictd`: it looks at the agents of a cluster from a
// user's machine, with the user's kubeconfig.
//
//	nodes                 asks each agent over a port-forward and prints one line for each
//	rank, why and doctor  run the command of that name in the agent's pod, by exec
//
// It needs the rights to list pods, to forward ports (nodes) and to exec (the others) in evictd's
// namespace, and for why the right to get the pod. Nothing here runs in an agent, and a process of
// `evictd run` pays for none of it: the package has no variables.
package plugin
