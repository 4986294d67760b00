// Package measure answers what the pods use now of a signal, and what a pod's end should give
// back. It decides no eviction; where a figure is missing or too old it returns the hold that
// says so.
package measure
