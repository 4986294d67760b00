// Package decide holds what evictd decides, as values: the [Decision], its requests, and why no pod
// was evicted. It imports no client and no clock.
package decide
