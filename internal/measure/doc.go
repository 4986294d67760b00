// Package measure answers what the pods use now of a signal, and what a pod's end should free. It
// decides no eviction; when a figure is missing or too old it returns the hold for that.
package measure
