// Package memories joins what the agent remembers from one tick to the next: which pods are in
// flight, which requests are in doubt, what must wait, and which incidents are open. It sees to it
// that all of them learn of the same report, and that all of them survive a restart of the
// container.
package memories
