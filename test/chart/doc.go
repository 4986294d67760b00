// Package chart holds the tests of the Helm chart and of the kustomizations: that both give
// the same objects, what each value of the chart changes, and what a real API server says.
// They use Helm's and kustomize's own libraries.
package chart
